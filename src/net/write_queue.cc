// SPDX-License-Identifier: Apache-2.0
#include "src/net/write_queue.h"

#include "src/base/system_calls.h"
#include "src/net/socket_setup.h"

#include <sys/socket.h>

#include <cerrno>
#include <new>
#include <utility>

namespace berth::internal {

WriteQueue* WriteQueue::take(LoopState& loop, SlotHandle slot, WriteQueue** holder) noexcept {
    WriteQueue* queue = loop.extension<NetExtension>().take_queue();
    if (queue == nullptr) {
        queue = new (std::nothrow) WriteQueue(loop);
    }
    if (queue != nullptr) {
        queue->slot_ = slot;
        queue->holder_ = holder;
    }
    return queue;
}

OwnedWrite* WriteQueue::take_write() noexcept {
    OwnedWrite* write = extension_.take_write(&WriteQueue::complete);
    if (write != nullptr) {
        write->queue = this;
    }
    return write;
}

Result<void> WriteQueue::status() const noexcept {
    if (system_errno_ != 0) {
        return std::unexpected(Error::from_errno(system_errno_, "write", "stream"));
    }
    return {};
}

// A part may have been sent already: what is missing would be a gap.
Result<void> WriteQueue::lack_memory() noexcept {
    fail(ENOMEM);
    return status();
}

Result<void> WriteQueue::write(Lent bytes) noexcept {
    if (has_failed()) {
        return status();
    }
    OwnedWrite* write = take_write();
    if (write == nullptr) {
        return lack_memory();
    }
    write->lent = std::move(bytes);
    return submit(*write, write->lent.bytes());
}

Result<void> WriteQueue::write(std::span<const std::byte> bytes) noexcept {
    if (has_failed()) {
        return status();
    }
    OwnedWrite* write = take_write();
    if (write == nullptr) {
        return lack_memory();
    }
    try {
        write->copy.assign(bytes.begin(), bytes.end());
    } catch (const std::bad_alloc&) {
        extension_.put_back(*write);
        return lack_memory();
    }
    return submit(*write, write->copy);
}

Result<void> WriteQueue::submit(OwnedWrite& write, std::span<const std::byte> bytes) noexcept {
    write.set(bytes);
    write.sent = 0;
    if (loop_.submit(write, slot_, kNoDeadline) == Start::done) {
        const int reason = write.system_errno();
        extension_.put_back(write);
        if (reason == 0) {
            return {};
        }
        fail(reason);
        return status();
    }
    if (pending_count_++ == 0) {
        loop_.hold();
    }
    loop_.note_unflushed();
    queued_size_ += bytes.size();
    is_congested_ = is_congested_ || queued_size_ > watermarks_.high;
    return {};
}

void WriteQueue::complete(Operation& operation) noexcept {
    auto& write = static_cast<OwnedWrite&>(operation);
    write.queue->note_sent(write);
}

void WriteQueue::note_sent(OwnedWrite& write) noexcept {
    queued_size_ -= write.single.iov_len;
    if (write.has_failed()) {
        fail(write.system_errno());
    }
    extension_.put_back(write);
    if (is_congested_ && queued_size_ <= watermarks_.low) {
        is_congested_ = false;
        end_waits(0);
    }
    if (--pending_count_ == 0) {
        loop_.let_go();
        drained();
    }
}

// Nothing may touch the queue after this: it may be gone.
void WriteQueue::drained() noexcept {
    if (const int fd = std::exchange(shut_down_fd_, -1); fd >= 0 && system_errno_ == 0) {
        calls().shutdown(fd, SHUT_WR);
    }
    if (life_ == Life::lingering) {
        if (system_errno_ != 0) reset_when_closed(lingering_fd_);
        close_socket(Detach::close);
    } else if (life_ == Life::ending) {
        delete_when_unused();
    } else if (is_plain_ && waiting_.is_empty()) {
        *holder_ = nullptr;
        extension_.put_back(*this);
    }
}

void WriteQueue::fail(int system_errno) noexcept {
    if (system_errno_ == 0) {
        system_errno_ = system_errno;
    }
    is_plain_ = false;
    is_congested_ = false;
    end_waits(-system_errno_);
}

void WriteQueue::end_waits(int result) noexcept {
    while (!waiting_.is_empty()) {
        loop_.end_wait(static_cast<WaitOperation&>(*waiting_.front()), result);
    }
}

Result<void> WriteQueue::shut_down_write(int fd) noexcept {
    BERTH_TRY(status());
    is_plain_ = false;
    if (pending_count_ > 0) {
        shut_down_fd_ = fd;
        loop_.hurry();
    } else if (calls().shutdown(fd, SHUT_WR) != 0) {
        return std::unexpected(Error::from_errno(errno, "shut down", "stream"));
    }
    return {};
}

void WriteQueue::close(int fd, Port port, CloseOperation* closing) noexcept {
    if (pending_count_ == 0 || system_errno_ != 0) {
        if (system_errno_ != 0) reset_when_closed(fd);
        reset(std::move(port), closing, Detach::close);
        return;
    }
    lingering_fd_ = fd;
    port_ = std::move(port);
    closing_ = closing;
    life_ = Life::lingering;
    end_waits(-ECANCELED);
    loop_.cancel_input(slot_);
    linger_timer_.start(&loop_, within(linger_));
    // What only waits to be handed to the kernel goes now.
    loop_.hurry();
}

void WriteQueue::reset(Port port, CloseOperation* closing, Detach how) noexcept {
    port_ = std::move(port);
    closing_ = closing;
    end_waits(-ECANCELED);
    close_socket(how);
}

void WriteQueue::linger_is_over(Operation& operation) noexcept {
    WriteQueue& queue = static_cast<LingerTimer&>(operation).queue;
    reset_when_closed(queue.lingering_fd_);
    queue.close_socket(Detach::close);
}

void WriteQueue::close_socket(Detach how) noexcept {
    life_ = Life::ending;
    shut_down_fd_ = -1;
    linger_timer_.stop();
    loop_.detach(slot_, how, closing_);
    port_.release();
    delete_when_unused();
}

void WriteQueue::delete_when_unused() noexcept {
    if (pending_count_ == 0) {
        delete this;
    }
}

}  // namespace berth::internal
