// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/ring.h"

#include "src/engine/wait_time.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace berth::internal {
namespace {

constexpr unsigned kSetupFlags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE |
                                 IORING_SETUP_R_DISABLED;

// What may be left out, the least missed last.
constexpr std::array<unsigned, 2> kOptionalFlags = {kSetupNoSqArray, 0};

const void* this_thread() noexcept {
    static thread_local const char token = 0;
    return &token;
}

int set_up(const RingSizes& sizes, io_uring_params& parameters) noexcept {
    int result = -EINVAL;
    for (const unsigned optional : kOptionalFlags) {
        parameters = {};
        parameters.flags = kSetupFlags | optional;
        parameters.cq_entries = sizes.completions;
        result = io_uring_setup(sizes.submissions, &parameters);
        if (result != -EINVAL) {
            break;
        }
    }
    return result;
}

template <class Field>
Field* at(const Mapping& mapping, std::uint32_t offset) noexcept {
    return reinterpret_cast<Field*>(mapping.data() + offset);
}

}  // namespace

Result<Ring> Ring::create(const RingSizes& sizes, const RingFeatures& features) {
    io_uring_params parameters{};
    const int fd = set_up(sizes, parameters);
    if (fd < 0) {
        return std::unexpected(Error::from_errno(-fd, "set up", "io_uring"));
    }
    Ring ring(Descriptor(fd), features);
    BERTH_TRY(ring.map(parameters));
    return ring;
}

Result<void> Ring::map(const io_uring_params& parameters) {
    const bool has_array = (parameters.flags & kSetupNoSqArray) == 0;
    const std::size_t array_end =
        has_array ? parameters.sq_off.array + parameters.sq_entries * sizeof(std::uint32_t) : 0;
    const std::size_t rings_size =
        std::max(array_end, parameters.cq_off.cqes + parameters.cq_entries * sizeof(io_uring_cqe));
    const std::size_t entries_size = parameters.sq_entries * sizeof(io_uring_sqe);
    const auto map_at = [this](std::size_t size, off_t offset) {
        return Mapping(
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd(), offset),
            size);
    };
    rings_ = map_at(rings_size, IORING_OFF_SQ_RING);
    entries_ = map_at(entries_size, IORING_OFF_SQES);
    if (rings_.is_empty() || entries_.is_empty()) {
        return std::unexpected(Error::from_errno(errno, "map", "io_uring"));
    }
    kernel_features_ = parameters.features;
    submission_head_ = at<std::uint32_t>(rings_, parameters.sq_off.head);
    submission_tail_ = at<std::uint32_t>(rings_, parameters.sq_off.tail);
    submission_flags_ = at<std::uint32_t>(rings_, parameters.sq_off.flags);
    completion_head_ = at<std::uint32_t>(rings_, parameters.cq_off.head);
    completion_tail_ = at<std::uint32_t>(rings_, parameters.cq_off.tail);
    completions_ = at<io_uring_cqe>(rings_, parameters.cq_off.cqes);
    submissions_ = at<io_uring_sqe>(entries_, 0);
    submission_count_max_ = parameters.sq_entries;
    completion_mask_ = parameters.cq_entries - 1;
    for (std::uint32_t i = 0; has_array && i < parameters.sq_entries; ++i) {
        at<std::uint32_t>(rings_, parameters.sq_off.array)[i] = i;
    }
    return {};
}

// The registration is in a table of the thread's: only there may it be taken back.
Ring::~Ring() {
    if (registered_fd_ >= 0 && thread_ == this_thread() && fd_.is_open()) {
        io_uring_rsrc_update update{};
        update.offset = static_cast<unsigned>(registered_fd_);
        register_with(IORING_UNREGISTER_RING_FDS, &update, 1);
    }
}

int Ring::register_with(unsigned opcode, const void* argument, unsigned count) noexcept {
    return io_uring_register(static_cast<unsigned>(fd()), opcode, argument, count);
}

int Ring::start() noexcept {
    if (is_started_) {
        return 0;
    }
    const int result = register_with(IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
    if (result < 0) {
        return result;
    }
    is_started_ = true;
    register_descriptor();
    return 0;
}

// Saves a look-up of the descriptor for each call. There are 16 places for each thread.
void Ring::register_descriptor() noexcept {
    io_uring_rsrc_update update{};
    update.offset = ~0U;
    update.data = static_cast<unsigned>(fd());
    if (register_with(IORING_REGISTER_RING_FDS, &update, 1) == 1) {
        registered_fd_ = static_cast<int>(update.offset);
        thread_ = this_thread();
    }
}

io_uring_sqe* Ring::entry_in_queue() noexcept {
    if (tail_ - taken_position() == submission_count_max_) {
        return nullptr;
    }
    io_uring_sqe* entry = &submissions_[tail_ & (submission_count_max_ - 1)];
    ++tail_;
    return entry;
}

io_uring_sqe& Ring::next_entry() noexcept {
    io_uring_sqe* entry = backlog_.empty() ? entry_in_queue() : nullptr;
    if (entry == nullptr && backlog_.empty()) {
        submit();
        entry = entry_in_queue();
    }
    if (entry == nullptr) {
        return backlog_.emplace_back();
    }
    std::memset(entry, 0, sizeof *entry);
    return *entry;
}

// Moves what fits from the backlog into the queue, and shows the kernel what there is.
std::uint32_t Ring::publish() noexcept {
    std::size_t moved = 0;
    while (moved < backlog_.size()) {
        io_uring_sqe* entry = entry_in_queue();
        if (entry == nullptr) {
            break;
        }
        *entry = backlog_[moved++];
    }
    backlog_.erase(backlog_.begin(), backlog_.begin() + static_cast<std::ptrdiff_t>(moved));
    store(submission_tail_, tail_);
    return tail_ - taken_position();
}

int Ring::call(std::uint32_t count, unsigned least, unsigned flags,
               EnterArgument* argument) noexcept {
    const int result = start();
    if (result < 0) {
        return result;
    }
    // Another thread's table may hold another ring at this place.
    const bool is_registered = registered_fd_ >= 0 && thread_ == this_thread();
    const int fd_or_index = is_registered ? registered_fd_ : fd();
    flags |= is_registered ? IORING_ENTER_REGISTERED_RING : 0;
    flags |= argument != nullptr ? IORING_ENTER_EXT_ARG : 0;
    ++enter_count_;
    const int taken = io_uring_enter2(static_cast<unsigned>(fd_or_index), count, least, flags,
                                      reinterpret_cast<sigset_t*>(argument),
                                      argument != nullptr ? sizeof *argument : 0);
    if (taken < 0) {
        return taken;
    }
    submission_count_ += static_cast<unsigned>(taken);
    return 0;
}

int Ring::submit() noexcept {
    std::uint32_t left = unsubmitted_count();
    while (left > 0) {
        const int result = call(publish(), 0, 0, nullptr);
        if (result < 0) {
            return result;
        }
        const std::uint32_t now_left = unsubmitted_count();
        if (now_left >= left) {
            return -EAGAIN;
        }
        left = now_left;
    }
    return 0;
}

int Ring::enter(bool may_wait, std::uint64_t deadline_ns) noexcept {
    const std::uint32_t count = publish();
    unsigned flags = IORING_ENTER_GETEVENTS;
    if (!may_wait || has_backlog()) {
        return call(count, 0, flags, nullptr);
    }
    flags |= features_.has_no_iowait ? kEnterNoIoWait : 0;
    if (deadline_ns == kNever) {
        return call(count, 1, flags, nullptr);
    }
    __kernel_timespec time{};
    if (features_.has_absolute_timer) {
        flags |= kEnterAbsoluteTimer;
        time.tv_sec = static_cast<std::int64_t>(deadline_ns / 1'000'000'000);
        time.tv_nsec = static_cast<std::int64_t>(deadline_ns % 1'000'000'000);
    } else {
        const WaitTime left(deadline_ns);
        time.tv_sec = left.get()->tv_sec;
        time.tv_nsec = left.get()->tv_nsec;
    }
    EnterArgument argument{};
    argument.ts = reinterpret_cast<std::uint64_t>(&time);
    return call(count, 1, flags, &argument);
}

}  // namespace berth::internal
