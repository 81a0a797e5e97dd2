// SPDX-License-Identifier: Apache-2.0
#include "bench/raw/ring.h"

#include <algorithm>
#include <cerrno>

namespace berth::bench {
namespace {

std::unexpected<Error> ring_error(int result, const char* operation) noexcept {
    const int error = -result;
    if (error == EINVAL || error == ENOSYS) {
        return std::unexpected(Error(Errc::unsupported, operation, "io_uring", error,
                                     "it needs Linux 6.1 or newer",
                                     "the other engines work without it"));
    }
    if (error == EPERM) {
        return std::unexpected(Error(Errc::permission_denied, operation, "io_uring", error, nullptr,
                                     "see sysctl kernel.io_uring_disabled and the container's "
                                     "system call filter"));
    }
    return std::unexpected(Error::from_errno(error, operation, "io_uring"));
}

Result<void> to_result(int result) noexcept {
    // EBUSY: completions must be read first, which is what the caller does next.
    const bool is_harmless = result >= 0 || result == -EINTR || result == -EBUSY ||
                             result == -EAGAIN || result == -ETIME;
    return is_harmless ? Result<void>{} : ring_error(result, "submit to");
}

}  // namespace

void Ring::Close::operator()(io_uring* ring) const noexcept {
    ::io_uring_queue_exit(ring);
    delete ring;
}

Result<Ring> Ring::open(unsigned submission_count, unsigned completion_count) {
    io_uring_params parameters{};
    parameters.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                       IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE;
    parameters.cq_entries = completion_count;
    auto raw = std::make_unique<io_uring>();
    const int result = ::io_uring_queue_init_params(submission_count, raw.get(), &parameters);
    if (result < 0) {
        return ring_error(result, "open");
    }
    std::unique_ptr<io_uring, Close> ring(raw.release());
    // Saves looking up the descriptor for each call; it works without.
    static_cast<void>(::io_uring_register_ring_fd(ring.get()));
    return Ring(std::move(ring));
}

Result<void> Ring::submit_and_wait() noexcept {
    return to_result(::io_uring_submit_and_wait(ring_.get(), 1));
}

Result<void> Ring::submit_and_wait(std::chrono::nanoseconds at_most) noexcept {
    __kernel_timespec timeout{};
    timeout.tv_sec = at_most.count() / 1'000'000'000;
    timeout.tv_nsec = at_most.count() % 1'000'000'000;
    io_uring_cqe* first = nullptr;
    return to_result(::io_uring_submit_and_wait_timeout(ring_.get(), &first, 1, &timeout, nullptr));
}

Result<void> Ring::submit() noexcept { return to_result(::io_uring_submit(ring_.get())); }

Result<void> Ring::submit_and_look() noexcept {
    return to_result(::io_uring_submit_and_get_events(ring_.get()));
}

BufferRing::BufferRing(PageBuffer entries, PageBuffer memory, std::size_t size,
                       unsigned count) noexcept
    : entries_(std::move(entries)),
      memory_(std::move(memory)),
      size_(size),
      ring_(reinterpret_cast<io_uring_buf_ring*>(entries_.bytes().data())),
      mask_(::io_uring_buf_ring_mask(count)) {
    ::io_uring_buf_ring_init(ring_);
}

Result<BufferRing> BufferRing::open(Ring& ring, unsigned count, std::size_t size,
                                    std::uint16_t group) {
    PageBuffer entries(std::max<std::size_t>(4096, count * sizeof(io_uring_buf)));
    PageBuffer memory(count * size);
    if (entries.bytes().empty() || memory.bytes().empty()) {
        return std::unexpected(Error::from_errno(ENOMEM, "allocate", "receive buffers"));
    }
    BufferRing buffers(std::move(entries), std::move(memory), size, count);
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<std::uintptr_t>(buffers.ring_);
    registration.ring_entries = count;
    registration.bgid = group;
    const int result = ::io_uring_register_buf_ring(ring.get(), &registration, 0);
    if (result < 0) {
        return ring_error(result, "register buffers with");
    }
    for (unsigned id = 0; id < count; ++id) {
        buffers.give_back(id);
    }
    buffers.publish();
    return buffers;
}

}  // namespace berth::bench
