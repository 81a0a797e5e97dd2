// SPDX-License-Identifier: Apache-2.0
#pragma once

// Waiting for a foreign descriptor: of a library that does its own reading and writing (a database
// client, libpcap), a device, an inotify or timer descriptor. berth only says when it is ready; it
// does not read from it, does not change its O_NONBLOCK, and never closes it.
//
// A watch says what is true when it is asked, as poll() does: who leaves bytes unread is told of
// them again. Of several waits that overlap on one watch, those for output are told in the order in
// which they were made, and so are the others: give each event that is waited for in parallel
// a watch of its own, on a duplicate of the descriptor.
//
// Loop thread only. The descriptor stays open until the watch is closed; a loop takes one watch of
// a descriptor at a time. A watch goes before its loop.

#include <berth/awaitable.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>

#include <poll.h>

#include <utility>

namespace berth {

/// The poll events that are true.
class PollAwaiter final : public Awaiter<PollOperation> {
public:
    PollAwaiter(internal::LoopState* loop, internal::SlotHandle handle, short wanted,
                Deadline deadline) noexcept
        : Awaiter(loop, handle, deadline) {
        events = wanted;
    }

    Result<short> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(error());
        }
        return static_cast<short>(count());
    }
};

class BERTH_API Watch {
public:
    Watch() noexcept = default;
    /// **Errors:** invalid_argument (no open descriptor), out_of_memory, descriptors_exhausted.
    static Result<Watch> open(Loop& loop, int fd);

    Watch(Watch&& other) noexcept { take_over(other); }
    Watch& operator=(Watch&& other) noexcept {
        if (this != &other) {
            close();
            take_over(other);
        }
        return *this;
    }
    /// As close().
    ~Watch() { close(); }

    bool is_open() const noexcept { return slot_.is_valid(); }
    /// -1 when closed.
    int fd() const noexcept { return fd_; }

    /// Completes when one of `events` (POLLIN, POLLOUT, POLLPRI, POLLRDHUP) is true, or POLLERR or
    /// POLLHUP, which need not be asked for: count() holds the bits. **Errors:** timed_out,
    /// cancelled, invalid_argument (the descriptor is closed; select and poll tell it also of an
    /// operation that waits already, epoll and io_uring do not).
    Start poll(PollOperation& operation, short events, Deadline deadline = {}) noexcept {
        operation.events = events;
        return internal::submit(loop_, operation, slot_, deadline);
    }
    /// `Result<short> events = co_await watch.events(POLLIN | POLLPRI);`
    PollAwaiter events(short events, Deadline deadline = {}) noexcept {
        return {loop_, slot_, events, deadline};
    }
    PollAwaiter readable(Deadline deadline = {}) noexcept { return events(POLLIN, deadline); }
    PollAwaiter writable(Deadline deadline = {}) noexcept { return events(POLLOUT, deadline); }

    /// Cancels its operations. The descriptor stays open.
    void close() noexcept;

private:
    Watch(internal::LoopState* loop, internal::SlotHandle slot, int fd) noexcept
        : loop_(loop), slot_(slot), fd_(fd) {}
    void take_over(Watch& other) noexcept {
        loop_ = other.loop_;
        slot_ = std::exchange(other.slot_, {});
        fd_ = std::exchange(other.fd_, -1);
    }

    internal::LoopState* loop_ = nullptr;
    internal::SlotHandle slot_;
    int fd_ = -1;
};

}  // namespace berth
