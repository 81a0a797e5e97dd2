// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a loop does for its user: one Operation is one accept, connect, receive, send, … An
// Operation belongs to whoever submits it, lies where he puts it (in an object of his, in a
// coroutine's frame), and is never copied; the loop allocates nothing for it.
//
//        submit                     the result is there
//   idle ──────▶ waiting ────────────────────────────────▶ ready ──▶ idle, complete() is called
//     ▲            │  cancel, deadline, close: as soon as the kernel has let go   │
//     └─ done      └──────────────────────────────────────────────────────────────┘
//
// A submission answers `done`: the result is there, complete() is not called; or `pending`:
// complete() is called exactly once, from the loop and never from inside the submission, also when
// the operation is cancelled, its deadline passes, or its socket or the loop ends. Until then the
// operation, its buffers and whatever its parts point to must stay where they are. What was
// submitted by a Handler is never answered `done`: all of its results come by complete(). (But for
// a socket that was never open: it has no loop, and answers `done` with EBADF.)
//
// Of one socket, operations of the same direction are carried out in the order submitted.
// Operations are for the loop's thread only.

#include <berth/address.h>
#include <berth/endpoint.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/lent.h>
#include <berth/operation_state.h>

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace berth {

class BERTH_API Operation : public internal::OperationState {
public:
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    bool is_pending() const noexcept { return stage != internal::OperationStage::idle; }
    /// The last result was an error. Of an operation that is not pending.
    bool has_failed() const noexcept { return result < 0; }
    /// Bytes moved, sockets accepted, datagrams, poll events: as each operation says.
    std::size_t count() const noexcept { return result < 0 ? 0 : static_cast<std::size_t>(result); }
    int system_errno() const noexcept { return result < 0 ? -result : 0; }
    /// The error as a value that says what failed; `cancelled` and `timed_out` too.
    Error error() const noexcept;
    /// Ends a pending operation early: it completes with `cancelled` unless its result is already
    /// there. Harmless on one that is not pending.
    void cancel() noexcept;

protected:
    Operation(OperationKind of_kind, Completion completion) noexcept {
        kind = of_kind;
        complete = completion;
    }
    /// A pending operation that goes is ended here and now: its completion is not called, and this
    /// waits until the kernel has let go of its buffers.
    ~Operation() { end(); }
    /// For what lies in a derived class and the engines still write to.
    void end() noexcept {
        if (is_pending()) abandon();
    }

private:
    void abandon() noexcept;
};

/// Accepts up to accepted.size() connections; completes as soon as there is one.
class BERTH_API AcceptOperation : public Operation {
public:
    explicit AcceptOperation(Completion completion) noexcept
        : Operation(OperationKind::accept, completion) {}

    ~AcceptOperation() { end(); }

    /// In: room; without any, count() is 0 at once. Out: count() descriptors, close-on-exec, the
    /// caller's. When a pending operation goes, those that it had accepted already are closed.
    std::span<int> accepted;
};

/// Connects a socket. count() is 0.
class BERTH_API ConnectOperation : public Operation {
public:
    explicit ConnectOperation(Completion completion) noexcept
        : Operation(OperationKind::connect, completion) {}

    /// As Operation::error(), with what the port table said.
    Error error() const noexcept;

    Endpoint remote;
    bool has_started = false;         // connect() has answered EINPROGRESS already
    std::optional<Error> port_error;  // no local port could be had
};

/// Receives into the caller's memory: count() bytes, 0 at the end of the stream (and for an empty
/// datagram, and at once for a buffer of size 0).
class BERTH_API ReceiveOperation : public Operation {
public:
    explicit ReceiveOperation(Completion completion) noexcept
        : Operation(OperationKind::receive, completion) {}

    std::span<std::byte> buffer;
    /// Or several pieces of memory, filled one after the other: at most 1024; the loop changes
    /// none.
    std::span<const iovec> parts;

    std::size_t room() const noexcept {
        std::size_t size = parts.empty() ? buffer.size() : 0;
        for (const iovec& part : parts) {
            size += part.iov_len;
        }
        return size;
    }
};

/// Receives into memory of the loop. Errors are in `data` too.
class BERTH_API ReceiveLentOperation : public Operation {
public:
    explicit ReceiveLentOperation(Completion completion) noexcept
        : Operation(OperationKind::receive_lent, completion) {}

    ~ReceiveLentOperation() { end(); }

    Lent data;
};

/// Sends all of its parts: count() bytes. After an error or a cancellation `sent` says how many
/// went out. A stream of which a send has failed, or went out in part only, can send no more: what
/// was to follow would leave a gap.
class BERTH_API SendOperation : public Operation {
public:
    explicit SendOperation(Completion completion) noexcept
        : Operation(OperationKind::send, completion) {}

    /// In: at most 1024 parts; the loop changes none. Or nothing, and `single` is meant.
    std::span<const iovec> parts;
    iovec single = {nullptr, 0};
    std::size_t sent = 0;

    void set(std::span<const std::byte> bytes) noexcept {
        parts = {};
        single = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    }
};

/// Receives one datagram, with where it came from.
class BERTH_API ReceiveFromOperation : public Operation {
public:
    explicit ReceiveFromOperation(Completion completion) noexcept
        : Operation(OperationKind::receive_from, completion) {}

    std::span<std::byte> buffer;
    std::span<const iovec> parts;  ///< Or these, as of a ReceiveOperation.
    Endpoint from;
    /// Not 0: the kernel has joined several datagrams of this size (UDP_GRO), the last may be
    /// shorter.
    std::uint16_t segment_size = 0;
    bool is_truncated = false;  ///< The datagram was longer than the buffer; the rest is lost.
};

/// Sends one datagram.
class BERTH_API SendToOperation : public Operation {
public:
    explicit SendToOperation(Completion completion) noexcept
        : Operation(OperationKind::send_to, completion) {}

    std::span<const iovec> parts;  ///< Or nothing, and `single` is meant.
    iovec single = {nullptr, 0};
    Endpoint to;
    bool has_destination = false;  ///< False: to where the socket is connected.
    /// Not 0: the kernel cuts the bytes into datagrams of this size (UDP_SEGMENT), at most 64.
    std::uint16_t segment_size = 0;
};

/// One datagram of a batch.
struct Datagram {
    std::span<std::byte> buffer;  ///< Receiving: the room. Sending: the bytes.
    std::size_t size = 0;         ///< Receiving: how many bytes came.
    Address peer;                 ///< Where it came from; where it goes to.
    bool has_peer = false;        ///< Sending: false for a connected socket's peer.
    bool is_truncated = false;
    std::uint16_t segment_size = 0;  ///< UDP_GRO and UDP_SEGMENT, as above.
};

/// Receives datagrams that are there, at most 64 a time: count() of them. (Of many the first time
/// only a few: what a batch costs goes with its room, which grows with what comes.)
class BERTH_API ReceiveBatchOperation : public Operation {
public:
    explicit ReceiveBatchOperation(Completion completion) noexcept
        : Operation(OperationKind::receive_batch, completion) {}

    std::span<Datagram> datagrams;
    bool has_left_some = false;  ///< Out: more may be there.
};

/// Sends all datagrams: count() of them; after an error `sent` went out before.
class BERTH_API SendBatchOperation : public Operation {
public:
    explicit SendBatchOperation(Completion completion) noexcept
        : Operation(OperationKind::send_batch, completion) {}

    std::span<const Datagram> datagrams;
    std::size_t sent = 0;
};

/// Waits until a descriptor is ready: count() holds the POLLIN, POLLOUT, POLLHUP, POLLERR,
/// POLLRDHUP and POLLPRI bits that are true.
class BERTH_API PollOperation : public Operation {
public:
    explicit PollOperation(Completion completion) noexcept
        : Operation(OperationKind::poll, completion) {}

    short events = 0;
};

/// Reads from a file, pipe or terminal: count() bytes, 0 at the end.
class BERTH_API ReadOperation : public Operation {
public:
    explicit ReadOperation(Completion completion) noexcept
        : Operation(OperationKind::read, completion) {}

    std::span<std::byte> buffer;
    std::int64_t offset = -1;  ///< -1: where the file stands, and for all that has no offset.
};

/// Writes to a file, pipe or terminal: count() bytes, perhaps fewer than there are.
class BERTH_API WriteOperation : public Operation {
public:
    explicit WriteOperation(Completion completion) noexcept
        : Operation(OperationKind::write, completion) {}

    std::span<const std::byte> buffer;
    std::int64_t offset = -1;
};

/// Sends a part of a regular file into the socket: count() bytes; fewer when the file ends. After
/// an error or a cancellation `sent` says how many went out. From page cache to socket (sendfile).
class BERTH_API SendFileOperation : public Operation {
public:
    explicit SendFileOperation(Completion completion) noexcept
        : Operation(OperationKind::send_file, completion) {}

    int file = -1;
    std::int64_t offset = 0;
    std::size_t size = 0;
    std::size_t sent = 0;
};

/// Moves up to `size` bytes from the socket or pipe it is submitted to into the pipe `pipe`, or,
/// when `into_socket`, from `pipe` into the socket: count() bytes, 0 at the end. Waits until both
/// are ready; while it waits for its end of the pipe nothing else of this loop can.
class BERTH_API SpliceOperation : public Operation {
public:
    explicit SpliceOperation(Completion completion) noexcept
        : Operation(OperationKind::splice, completion) {}

    int pipe = -1;
    bool into_socket = false;
    std::size_t size = 0;
};

/// Closes a socket: completes when its other operations have completed and its descriptor is gone.
/// EBADF when somebody else had closed that.
class BERTH_API CloseOperation : public Operation {
public:
    explicit CloseOperation(Completion completion) noexcept
        : Operation(OperationKind::close, completion) {}
};

/// Waits for something that happens inside this thread, such as room in a stream's queue.
class BERTH_API WaitOperation : public Operation {
public:
    explicit WaitOperation(Completion completion) noexcept
        : Operation(OperationKind::wait, completion) {}

    internal::OperationList* list = nullptr;  // where it waits
};

/// An operation whose results go to `callable(operation)`, from the loop, also when they are there
/// at once. The callable must not throw; it may submit the operation again, or destroy it.
template <class Op, class Callable>
class Handler final : public Op {
public:
    explicit Handler(Callable callable) : Op(&Handler::run), callable_(std::move(callable)) {
        this->always_completes = true;
    }

private:
    static void run(Operation& operation) noexcept {
        auto& self = static_cast<Handler&>(operation);
        self.callable_(static_cast<Op&>(self));
    }

    Callable callable_;
};

/// `auto receive = berth::handler<berth::ReceiveLentOperation>([&](auto& done) { … });`
template <class Op, class Callable>
Handler<Op, Callable> handler(Callable callable) {
    return Handler<Op, Callable>(std::move(callable));
}

}  // namespace berth
