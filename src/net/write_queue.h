// SPDX-License-Identifier: Apache-2.0
#pragma once

// The owning sends of a stream: bytes that the kernel has not taken yet, and their memory. Each is
// a SendOperation of its own, taken from a list of used ones, so that in steady state nothing is
// allocated. So is the queue: when all is sent its stream lets go of it, and idle streams hold
// none. The queue outlives its stream for as long as any of them is pending: when the stream is
// closed with bytes left, it goes on sending until they are gone or the linger time is over, and
// then closes the socket.

#include "src/loop/loop_state.h"
#include "src/net/net_extension.h"

#include <berth/ports.h>
#include <berth/stream.h>
#include <berth/timer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace berth::internal {

class WriteQueue {
public:
    /// An empty queue for the stream whose pointer to it is `*holder`, which becomes null when the
    /// queue lets go. Null when there is no memory.
    static WriteQueue* take(LoopState& loop, SlotHandle slot, WriteQueue** holder) noexcept;
    /// The stream has moved.
    void set_holder(WriteQueue** holder) noexcept { holder_ = holder; }
    WriteQueue(const WriteQueue&) = delete;
    WriteQueue& operator=(const WriteQueue&) = delete;

    Result<void> write(Lent bytes) noexcept;
    Result<void> write(std::span<const std::byte> bytes) noexcept;
    bool has_failed() const noexcept { return system_errno_ != 0; }
    /// The first error that a write met.
    Result<void> status() const noexcept;

    std::size_t queued_size() const noexcept { return queued_size_; }
    bool is_congested() const noexcept { return is_congested_; }
    /// Completes once the queue is no longer congested, or has failed.
    void wait_for_room(WaitOperation& operation, Deadline deadline) noexcept {
        loop_.start_wait(operation, waiting_, deadline);
        loop_.hurry();
    }
    void set_watermarks(Watermarks watermarks) noexcept {
        watermarks_ = watermarks;
        is_plain_ = false;
    }
    void set_linger(std::chrono::nanoseconds linger) noexcept {
        linger_ = linger;
        is_plain_ = false;
    }

    /// A write has failed outside of this queue.
    void fail(int system_errno) noexcept;
    /// Shuts the sending side of `fd` down when everything is sent.
    Result<void> shut_down_write(int fd) noexcept;

    /// The stream is closed: this queue sees to its socket and its port, and to itself. What cannot
    /// be sent must not look like the end of the stream: the connection is broken off.
    void close(int fd, Port port, CloseOperation* closing) noexcept;
    /// The stream is closed, what is queued is thrown away.
    void reset(Port port, CloseOperation* closing, Detach how) noexcept;

private:
    enum class Life : std::uint8_t { of_stream, lingering, ending };

    /// The linger time; pending while the queue lingers.
    class LingerTimer final : public TimerOperation {
    public:
        explicit LingerTimer(WriteQueue& of) noexcept
            : TimerOperation(&WriteQueue::linger_is_over), queue(of) {}
        WriteQueue& queue;
    };

    friend class NetExtension;

    explicit WriteQueue(LoopState& loop) noexcept
        : loop_(loop), extension_(loop.extension<NetExtension>()) {}
    ~WriteQueue() = default;
    static void complete(Operation& operation) noexcept;
    static void linger_is_over(Operation& operation) noexcept;
    OwnedWrite* take_write() noexcept;
    Result<void> lack_memory() noexcept;
    Result<void> submit(OwnedWrite& write, std::span<const std::byte> bytes) noexcept;
    void note_sent(OwnedWrite& write) noexcept;
    void end_waits(int result) noexcept;
    void drained() noexcept;
    void close_socket(Detach how) noexcept;
    void delete_when_unused() noexcept;

    LoopState& loop_;
    NetExtension& extension_;
    SlotHandle slot_;
    WriteQueue** holder_ = nullptr;
    WriteQueue* next_free_ = nullptr;
    Life life_ = Life::of_stream;
    bool is_congested_ = false;
    bool is_plain_ = true;  // has nothing to remember when it is empty
    int system_errno_ = 0;
    int shut_down_fd_ = -1;  // to be shut down when everything is sent
    int lingering_fd_ = -1;
    std::uint32_t pending_count_ = 0;
    std::size_t queued_size_ = 0;
    Watermarks watermarks_;
    std::chrono::nanoseconds linger_ = std::chrono::seconds(30);
    OperationList waiting_;

    // Once the stream is closed.
    LingerTimer linger_timer_{*this};
    CloseOperation* closing_ = nullptr;
    Port port_;
};

}  // namespace berth::internal
