// SPDX-License-Identifier: Apache-2.0
#pragma once

// A connection: TCP over IPv4 or IPv6, or a unix stream. (Descriptors that a peer sends over a unix
// stream are lost.) Nothing here raises SIGPIPE. Each transfer comes in two forms: with an
// operation of the caller's (callbacks), and as something to `co_await`. Both take a deadline; what
// is cancelled or timed out while receiving has consumed nothing, but a send that failed, or of
// which a part went out, leaves a stream that can send no more.
//
// Two ways to send. A *borrowing* send (send with a span) reads the caller's memory until it
// completes, when the kernel has taken everything. An *owning* one (write, send with a Lent) takes
// the bytes over and is done at once; what the kernel does not take yet waits in the stream's
// queue. Above the high watermark the queue is congested: `co_await stream.send(std::move(lent))`
// then waits until it has fallen to the low one, and callers of write() should do the same. All
// sends go out whole and in the order in which they were made.
//
// Loop thread only. A stream goes before its loop. Closing it cancels its operations, sends what is
// queued in the background for up to the linger time, then closes the socket.

#include <berth/awaitable.h>
#include <berth/descriptor.h>
#include <berth/endpoint.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>
#include <berth/ports.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace berth {

namespace internal {
class WriteQueue;
struct Unconnected;
}  // namespace internal

struct ConnectOptions {
    /// The local address to connect from, of the same family (else invalid_argument). A port of 0
    /// is chosen by the loop's port table, or the kernel.
    std::optional<Endpoint> local = std::nullopt;
    bool no_delay = true;  ///< TCP_NODELAY
};

struct Watermarks {
    std::size_t low = 64 * 1024;    ///< bytes
    std::size_t high = 256 * 1024;  ///< bytes; >= low
};

class ConnectAwaiter;
class RoomAwaiter;
class WriteAwaiter;

class BERTH_API Stream {
public:
    Stream() noexcept;
    /// Takes over a connected stream socket.
    /// **Errors:** invalid_argument (no stream socket), out_of_memory, descriptors_exhausted.
    static Result<Stream> adopt(Loop& loop, Descriptor socket);
    /// A socket that connect() will connect to `remote`. **Errors:** descriptors_exhausted,
    /// unsupported, address_not_available, port_in_use.
    static Result<Stream> open(Loop& loop, const Endpoint& remote,
                               const ConnectOptions& options = {});

    Stream(Stream&& other) noexcept;
    Stream& operator=(Stream&& other) noexcept;
    /// As close().
    ~Stream();

    bool is_open() const noexcept { return fd_ >= 0; }
    /// -1 when closed. Do not change its O_NONBLOCK, and do not close it: an operation that waits
    /// would not learn of it, and the stream would close whatever has the number next. See
    /// release().
    int fd() const noexcept { return fd_; }
    Result<Endpoint> local_endpoint() const;
    Result<Endpoint> remote_endpoint() const;
    Result<void> set_no_delay(bool on);
    Result<void> set_keep_alive(bool on);
    /// See Deadline::fixed(); now is the time of the stream's loop. Unchanged when it is not open.
    Deadline fixed(Deadline deadline) const noexcept;

    /// Connects to where the stream was opened for. **Errors:** refused, unreachable, timed_out,
    /// ports_exhausted, address_not_available. After an error only close() is left.
    Start connect(ConnectOperation& operation, Deadline deadline = {});

    // Receiving.
    Start receive(ReceiveLentOperation& operation, Deadline deadline = {}) noexcept {
        return internal::submit(loop_, operation, slot_, deadline);
    }
    Start receive(ReceiveOperation& operation, std::span<std::byte> buffer,
                  Deadline deadline = {}) noexcept {
        operation.buffer = buffer;
        operation.parts = {};
        return internal::submit(loop_, operation, slot_, deadline);
    }
    /// Into several pieces of memory, one after the other. `parts` must stay too.
    Start receive(ReceiveOperation& operation, std::span<const iovec> parts,
                  Deadline deadline = {}) noexcept {
        operation.parts = parts;
        operation.buffer = {};
        return internal::submit(loop_, operation, slot_, deadline);
    }
    /// `Lent data = co_await stream.receive();`
    LentAwaiter receive(Deadline deadline = {}) noexcept { return {loop_, slot_, deadline}; }
    /// Into the caller's memory; 0 at the end of the stream.
    CountAwaiter<ReceiveOperation> receive_into(std::span<std::byte> buffer,
                                                Deadline deadline = {}) noexcept;
    CountAwaiter<ReceiveOperation> receive_into(std::span<const iovec> parts,
                                                Deadline deadline = {}) noexcept;

    // Borrowing sends.
    Start send(SendOperation& operation, std::span<const std::byte> bytes,
               Deadline deadline = {}) noexcept {
        operation.set(bytes);
        operation.sent = 0;
        return internal::submit(loop_, operation, slot_, deadline);
    }
    /// Several pieces of memory, one after the other. `parts` must stay too.
    Start send(SendOperation& operation, std::span<const iovec> parts,
               Deadline deadline = {}) noexcept {
        operation.parts = parts;
        operation.single = {nullptr, 0};
        operation.sent = 0;
        return internal::submit(loop_, operation, slot_, deadline);
    }
    CountAwaiter<SendOperation> send(std::span<const std::byte> bytes,
                                     Deadline deadline = {}) noexcept;
    CountAwaiter<SendOperation> send(std::span<const iovec> parts, Deadline deadline = {}) noexcept;
    /// A part of a regular file, without copying it through this process where that can be had.
    Start send_file(SendFileOperation& operation, int file, std::int64_t offset, std::size_t size,
                    Deadline deadline = {}) noexcept;
    CountAwaiter<SendFileOperation> send_file(int file, std::int64_t offset, std::size_t size,
                                              Deadline deadline = {}) noexcept;
    /// Up to `size` bytes from the stream into a pipe, or from a pipe into the stream.
    Start splice_to(SpliceOperation& operation, int pipe, std::size_t size,
                    Deadline deadline = {}) noexcept;
    Start splice_from(SpliceOperation& operation, int pipe, std::size_t size,
                      Deadline deadline = {}) noexcept;
    CountAwaiter<SpliceOperation> splice_to(int pipe, std::size_t size,
                                            Deadline deadline = {}) noexcept;
    CountAwaiter<SpliceOperation> splice_from(int pipe, std::size_t size,
                                              Deadline deadline = {}) noexcept;

    // Owning sends.
    /// **Errors:** what an earlier one met (reset, closed, timed_out), out_of_memory.
    Result<void> write(Lent bytes);
    /// Copies the bytes.
    Result<void> write(std::span<const std::byte> bytes);
    /// As write(); waits while the queue is congested. A deadline that passes meanwhile is no harm:
    /// the bytes are queued all the same.
    WriteAwaiter send(Lent&& bytes, Deadline deadline = {});
    std::size_t queued_size() const noexcept;
    bool is_congested() const noexcept;
    /// Completes when the queue has fallen to the low watermark, at once when it is not congested.
    /// **Errors:** as write().
    Start wait_for_room(WaitOperation& operation, Deadline deadline = {}) noexcept;
    /// The same to await: `co_await stream.room()`.
    RoomAwaiter room(Deadline deadline = {}) noexcept;
    Result<void> set_watermarks(Watermarks watermarks);
    /// How long close() goes on sending what is queued; 30 s unless told otherwise.
    Result<void> set_linger(std::chrono::nanoseconds linger);

    /// Says that nothing more will be sent, after what is queued; receiving goes on.
    Result<void> shut_down_write();
    void close() noexcept;
    /// Completes when the socket is gone; `done` when the stream was never open. **Errors:**
    /// invalid_argument (somebody else had closed the descriptor).
    Start close(CloseOperation& operation) noexcept;
    /// Throws away what is queued and breaks the connection off: the peer sees a reset.
    void reset() noexcept;
    /// Gives the socket back to the caller; its operations are cancelled. What is queued to be sent
    /// is lost, and so is what was received before anybody asked for it (by io_uring only).
    Descriptor release() noexcept;
    /// The same, but what was received is appended to `unread`. **Errors:** std::bad_alloc; the
    /// stream stays open.
    Descriptor release(std::vector<std::byte>& unread);

private:
    friend class ConnectAwaiter;
    friend class RoomAwaiter;
    friend class WriteAwaiter;
    friend class Listener;

    Stream(internal::LoopState* loop, internal::SlotHandle slot, int fd) noexcept;
    Result<void> make_queue();
    Result<std::size_t> send_now(std::span<const std::byte> bytes);
    void take_over(Stream& other) noexcept;
    Start close_with(CloseOperation* operation) noexcept;
    void forget() noexcept;

    internal::LoopState* loop_ = nullptr;
    internal::SlotHandle slot_;
    int fd_ = -1;
    internal::WriteQueue* queue_ = nullptr;               // while it is of use; sees to itself
    Port port_;                                           // from the loop's port table; else empty
    std::unique_ptr<internal::Unconnected> unconnected_;  // until connect()
};

/// `Result<Stream> stream = co_await berth::connect(loop, endpoint, within(5s));`
BERTH_API ConnectAwaiter connect(Loop& loop, const Endpoint& remote, Deadline deadline = {},
                                 const ConnectOptions& options = {});

class BERTH_API ConnectAwaiter final : public Awaiter<ConnectOperation> {
public:
    ConnectAwaiter(internal::LoopState* loop, Result<Stream> stream, Deadline deadline);

    bool await_ready() noexcept;
    Result<Stream> await_resume() noexcept;

private:
    Result<Stream> stream_;
};

class BERTH_API RoomAwaiter final : public Awaiter<WaitOperation> {
public:
    RoomAwaiter(Stream& stream, Deadline deadline) noexcept;

    bool await_ready() noexcept;
    Result<void> await_resume() const noexcept;

private:
    Stream& stream_;
};

/// What became of an owning send: all that a Result<void> says, in the size of an int. (gcc keeps
/// in a coroutine's frame what a `co_await` gave, and frames are what idle connections cost.)
class BERTH_API WriteResult {
public:
    WriteResult() noexcept = default;
    explicit WriteResult(const Error& error) noexcept;

    bool has_value() const noexcept { return code_ == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    /// Of one that has failed.
    Error error() const noexcept;
    /// Wherever a Result is wanted.
    operator Result<void>() const noexcept {  // NOLINT(google-explicit-constructor)
        return has_value() ? Result<void>{} : std::unexpected(error());
    }

private:
    int code_ = 0;  // an errno, or that the stream was not open
};

namespace internal {
inline void unwrap(WriteResult&&) noexcept {}
}  // namespace internal

/// Hardly ever has to wait, and makes what it needs for that only then.
class BERTH_API WriteAwaiter final {
public:
    WriteAwaiter(Stream& stream, const Result<void>& written, Deadline deadline) noexcept;
    WriteAwaiter(const WriteAwaiter&) = delete;
    WriteAwaiter& operator=(const WriteAwaiter&) = delete;
    ~WriteAwaiter();

    void set_context(internal::TaskContext* context) noexcept { context_ = context; }
    bool await_ready() noexcept;
    void await_suspend(std::coroutine_handle<> waiter) noexcept { room_->await_suspend(waiter); }
    WriteResult await_resume() const noexcept;

private:
    Stream& stream_;
    Deadline deadline_;
    internal::TaskContext* context_ = nullptr;
    RoomAwaiter* room_ = nullptr;  // in memory for frames; while the queue is congested
    WriteResult written_;
};

}  // namespace berth
