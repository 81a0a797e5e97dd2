// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/waker.h"

#include "src/engine/io_uring/slot.h"

#include <sys/eventfd.h>

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>

namespace berth::internal {
namespace {

constexpr std::uint64_t kWake = static_cast<std::uint64_t>(RequestTag::wake);
constexpr int kMostTries = 1000;

}  // namespace

Result<void> Waker::open(int ring_fd, bool has_messages) {
    ring_fd_ = ring_fd;
    if (!has_messages) {
        eventfd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!eventfd_.is_open()) {
            return std::unexpected(Error::from_errno(errno, "open", "eventfd"));
        }
    }
    return {};
}

// EBADFD: the ring has not started; start() looks at is_under_way_. ENOMEM passes.
bool Waker::send_message() const noexcept {
    io_uring_sqe message{};
    message.opcode = IORING_OP_MSG_RING;
    message.fd = ring_fd_;
    message.off = kWake;
    return io_uring_register(~0U, kRegisterSendMessage, &message, 1) != -ENOMEM;
}

void Waker::wake() noexcept {
    if (is_under_way_.load() || is_under_way_.exchange(true)) {
        return;
    }
    count_.fetch_add(1, std::memory_order_relaxed);
    if (eventfd_.is_open()) {
        const std::uint64_t one = 1;
        // EAGAIN would mean 2^64 - 2 wake-ups that nobody has read, and wakes all the same.
        [[maybe_unused]] const ssize_t written = ::write(eventfd_.get(), &one, sizeof one);
        return;
    }
    for (int i = 0; i < kMostTries && !send_message(); ++i) {
        ::sched_yield();
    }
}

bool Waker::start(Ring& ring) noexcept {
    if (eventfd_.is_open()) {
        watch(ring);
    }
    return is_under_way_.exchange(false);
}

// Each write to the eventfd makes a completion; nobody reads it.
void Waker::watch(Ring& ring) noexcept {
    io_uring_sqe& entry = ring.next_entry();
    entry.opcode = IORING_OP_POLL_ADD;
    entry.fd = eventfd_.get();
    entry.poll32_events = poll_mask(POLLIN);
    entry.len = IORING_POLL_ADD_MULTI;
    entry.user_data = kWake;
    is_watching_ = true;
}

void Waker::stop(Ring& ring) noexcept {
    is_stopped_ = true;
    if (is_watching_) {
        io_uring_sqe& entry = ring.next_entry();
        entry.opcode = IORING_OP_ASYNC_CANCEL;
        entry.fd = -1;
        entry.addr = kWake;
        entry.flags = IOSQE_CQE_SKIP_SUCCESS;
        entry.user_data = kIgnored;
    }
}

void Waker::on_wake(Ring& ring, unsigned flags) noexcept {
    is_under_way_.exchange(false);
    if (is_watching_ && (flags & IORING_CQE_F_MORE) == 0) {
        is_watching_ = false;
        if (!is_stopped_) {
            watch(ring);
        }
    }
}

}  // namespace berth::internal
