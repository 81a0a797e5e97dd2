// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two queues that are shared with the kernel, and the calls that go with them. Knows nothing of
// sockets and operations.
//
//            next_entry()                enter(), submit()
//   engine ───────────────▶ submissions ───────────────────▶ kernel
//     ▲        drain()                                          │
//     └───────────────────── completions ◀──────────────────────┘
//
// A ring belongs to one thread: the first that starts it, by entering the kernel. Until then it is
// disabled, so that a loop can be made on one thread and run on another. Everything but create()
// is for that thread.

#include "src/engine/io_uring/kernel_interface.h"
#include "src/engine/io_uring/mapping.h"

#include <berth/descriptor.h>
#include <berth/error.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace berth::internal {

/// Powers of two; completions >= submissions.
struct RingSizes {
    unsigned submissions = 1024;
    unsigned completions = 16 * 1024;
};

/// What the kernel offers beyond what is required; see probe.h.
struct RingFeatures {
    bool has_absolute_timer = false;
    bool has_no_iowait = false;
    bool has_message_wake = false;
};

class Ring {
public:
    /// **Errors:** the errno of io_uring_setup() or mmap(); EINVAL on kernels before 6.1.
    static Result<Ring> create(const RingSizes& sizes, const RingFeatures& features);

    Ring(Ring&&) noexcept = default;
    Ring& operator=(Ring&&) = delete;
    ~Ring();

    int fd() const noexcept { return fd_.get(); }
    /// The IORING_FEAT_ bits.
    unsigned kernel_features() const noexcept { return kernel_features_; }

    /// Makes the ring this thread's. Answers 0 or -errno; harmless when it is already.
    int start() noexcept;
    bool is_started() const noexcept { return is_started_; }

    /// An entry, all zero, to be filled in before the next call of any kind. There is always one:
    /// a full queue is sent off, and what the kernel does not take waits in the backlog.
    io_uring_sqe& next_entry() noexcept;
    /// Counts entries: of the one that next_entry() gave last.
    std::uint32_t last_position() const noexcept {
        return tail_ + static_cast<std::uint32_t>(backlog_.size()) - 1;
    }
    /// The kernel has taken all entries whose position is below this one.
    std::uint32_t taken_position() const noexcept { return load(submission_head_); }
    std::uint32_t unsubmitted_count() const noexcept {
        return tail_ - taken_position() + static_cast<std::uint32_t>(backlog_.size());
    }
    bool has_backlog() const noexcept { return !backlog_.empty(); }

    /// Sends off what there is, without waiting. Answers 0 or -errno.
    int submit() noexcept;
    /// Sends off what there is, runs what the kernel has put off, and waits for one completion when
    /// `may_wait`, until `deadline_ns` of CLOCK_MONOTONIC. Answers 0 or -errno.
    int enter(bool may_wait, std::uint64_t deadline_ns) noexcept;

    /// Hands each completion that is there to `take(const io_uring_cqe&)`, and removes them. Those
    /// that come `kFar` and `kNear` later are shown before, to fetch into the cache what they need.
    template <class ForeseeFar, class ForeseeNear, class Take>
    void drain(ForeseeFar foresee_far, ForeseeNear foresee_near, Take take) {
        constexpr std::uint32_t kFar = 8;
        constexpr std::uint32_t kNear = 4;
        const std::uint32_t tail = load(completion_tail_);
        std::uint32_t head = *completion_head_;
        for (; head != tail; ++head) {
            const std::uint32_t left = tail - head;
            if (left > kFar) {
                foresee_far(completions_[(head + kFar) & completion_mask_]);
            }
            if (left > kNear) {
                foresee_near(completions_[(head + kNear) & completion_mask_]);
            }
            take(completions_[head & completion_mask_]);
        }
        store(completion_head_, head);
    }
    template <class Take>
    void drain(Take take) {
        const auto nothing = [](const io_uring_cqe&) {};
        drain(nothing, nothing, take);
    }
    /// Completions wait in the kernel for room: the next enter() brings them.
    bool has_overflow() const noexcept {
        return (load(submission_flags_) & IORING_SQ_CQ_OVERFLOW) != 0;
    }

    /// io_uring_register() on this ring: the answer, or -errno.
    int register_with(unsigned opcode, const void* argument, unsigned count) noexcept;

    std::uint64_t enter_count() const noexcept { return enter_count_; }
    std::uint64_t submission_count() const noexcept { return submission_count_; }

private:
    explicit Ring(Descriptor fd, const RingFeatures& features) noexcept
        : fd_(std::move(fd)), features_(features) {}

    static std::uint32_t load(const std::uint32_t* shared) noexcept {
        return std::atomic_ref(*const_cast<std::uint32_t*>(shared)).load(std::memory_order_acquire);
    }
    static void store(std::uint32_t* shared, std::uint32_t value) noexcept {
        std::atomic_ref(*shared).store(value, std::memory_order_release);
    }

    Result<void> map(const io_uring_params& parameters);
    void register_descriptor() noexcept;
    io_uring_sqe* entry_in_queue() noexcept;
    std::uint32_t publish() noexcept;
    int call(std::uint32_t count, unsigned least, unsigned flags, EnterArgument* argument) noexcept;

    Descriptor fd_;
    RingFeatures features_;
    Mapping rings_;
    Mapping entries_;
    unsigned kernel_features_ = 0;

    std::uint32_t* submission_head_ = nullptr;
    std::uint32_t* submission_tail_ = nullptr;
    std::uint32_t* submission_flags_ = nullptr;
    std::uint32_t* completion_head_ = nullptr;
    std::uint32_t* completion_tail_ = nullptr;
    io_uring_sqe* submissions_ = nullptr;
    io_uring_cqe* completions_ = nullptr;
    std::uint32_t submission_count_max_ = 0;
    std::uint32_t completion_mask_ = 0;
    std::uint32_t tail_ = 0;  // of the submissions, ahead of what the kernel sees

    std::vector<io_uring_sqe> backlog_;
    const void* thread_ = nullptr;  // whose table holds registered_fd_
    int registered_fd_ = -1;
    bool is_started_ = false;

    std::uint64_t enter_count_ = 0;
    std::uint64_t submission_count_ = 0;
};

}  // namespace berth::internal
