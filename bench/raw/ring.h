// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the io_uring programs share: a ring with the flags that pay for a loop of one thread
// (SINGLE_ISSUER and DEFER_TASKRUN, kernel 6.1), and a ring of provided buffers (5.19).

#include "bench/harness/page_buffer.h"

#include <berth/error.h>

#include <liburing.h>

#include <chrono>
#include <cstdint>
#include <memory>

namespace berth::bench {

class Ring {
public:
    /// **Errors:** unsupported, permission_denied (sysctl io_uring_disabled, a container's filter).
    static Result<Ring> open(unsigned submission_count, unsigned completion_count);

    /// Always one: what is queued is submitted when the queue is full.
    io_uring_sqe* next() noexcept {
        io_uring_sqe* submission = ::io_uring_get_sqe(ring_.get());
        while (submission == nullptr) [[unlikely]] {
            ::io_uring_submit(ring_.get());
            submission = ::io_uring_get_sqe(ring_.get());
        }
        return submission;
    }

    /// Submits what is queued and waits for a completion, in one system call.
    Result<void> submit_and_wait() noexcept;
    /// The same, but not longer than this.
    Result<void> submit_and_wait(std::chrono::nanoseconds at_most) noexcept;
    Result<void> submit() noexcept;
    /// The same without waiting; completions that are due are delivered.
    Result<void> submit_and_look() noexcept;

    /// handle(const io_uring_cqe&) for each that is there; it may queue submissions.
    template <class Handle>
    void for_each_completion(Handle handle) {
        unsigned head = 0;
        unsigned count = 0;
        io_uring_cqe* completion = nullptr;
        io_uring_for_each_cqe(ring_.get(), head, completion) {
            ++count;
            handle(static_cast<const io_uring_cqe&>(*completion));
        }
        ::io_uring_cq_advance(ring_.get(), count);
    }

    io_uring* get() noexcept { return ring_.get(); }

private:
    struct Close {
        void operator()(io_uring* ring) const noexcept;
    };
    explicit Ring(std::unique_ptr<io_uring, Close> ring) noexcept : ring_(std::move(ring)) {}

    std::unique_ptr<io_uring, Close> ring_;
};

/// Receive memory that the kernel takes from, by id, and gets back.
class BufferRing {
public:
    /// `count` is a power of two up to 32,768. Must not outlive `ring`.
    static Result<BufferRing> open(Ring& ring, unsigned count, std::size_t size,
                                   std::uint16_t group);

    std::byte* data(unsigned id) const noexcept { return memory_.bytes().data() + id * size_; }
    static unsigned id_of(const io_uring_cqe& completion) noexcept {
        return completion.flags >> IORING_CQE_BUFFER_SHIFT;
    }

    /// Gives one back; the kernel sees it after publish().
    void give_back(unsigned id) noexcept {
        ::io_uring_buf_ring_add(ring_, data(id), static_cast<unsigned>(size_),
                                static_cast<std::uint16_t>(id), mask_, returned_count_++);
    }
    void publish() noexcept {
        ::io_uring_buf_ring_advance(ring_, returned_count_);
        returned_count_ = 0;
    }

private:
    BufferRing(PageBuffer entries, PageBuffer memory, std::size_t size, unsigned count) noexcept;

    PageBuffer entries_;
    PageBuffer memory_;
    std::size_t size_;
    io_uring_buf_ring* ring_;
    int mask_;
    int returned_count_ = 0;
};

/// user_data: what completed, for which descriptor, and 24 bits more.
constexpr std::uint64_t tag(std::uint8_t kind, int fd, unsigned extra = 0) noexcept {
    return std::uint64_t{kind} << 56 | std::uint64_t{extra & 0xff'ffffU} << 32 |
           static_cast<std::uint32_t>(fd);
}
constexpr std::uint8_t kind_of(const io_uring_cqe& completion) noexcept {
    return static_cast<std::uint8_t>(completion.user_data >> 56);
}
constexpr unsigned extra_of(const io_uring_cqe& completion) noexcept {
    return static_cast<unsigned>(completion.user_data >> 32) & 0xff'ffffU;
}
constexpr int fd_of(const io_uring_cqe& completion) noexcept {
    return static_cast<int>(completion.user_data & 0xffff'ffffU);
}
inline bool has_more(const io_uring_cqe& completion) noexcept {
    return (completion.flags & IORING_CQE_F_MORE) != 0;
}

/// A multishot receive into the buffers of `group`.
inline void prepare_receive(io_uring_sqe* submission, int fd, std::uint16_t group,
                            std::uint64_t user_data) noexcept {
    ::io_uring_prep_recv_multishot(submission, fd, nullptr, 0, 0);
    submission->flags = static_cast<std::uint8_t>(submission->flags | IOSQE_BUFFER_SELECT);
    submission->buf_group = group;
    submission->user_data = user_data;
}

/// A send of which nothing is heard when all went out at once: no completion, and the memory is
/// free again after the next submission. Where it would have to wait it fails or is short, which
/// completes.
inline void prepare_silent_send(io_uring_sqe* submission, int fd, const void* data,
                                std::size_t size, std::uint64_t user_data) noexcept {
    ::io_uring_prep_send(submission, fd, data, size, MSG_NOSIGNAL | MSG_WAITALL | MSG_DONTWAIT);
    submission->flags = static_cast<std::uint8_t>(submission->flags | IOSQE_CQE_SKIP_SUCCESS);
    submission->user_data = user_data;
}

}  // namespace berth::bench
