// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/probe.h"

#include "src/engine/io_uring/self_test.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace berth::internal {
namespace {

constexpr const char* kUseOther = "use epoll, or run it where io_uring is allowed";
constexpr const char* kTooOld = "use epoll, or Linux 6.1 or newer";

constexpr unsigned kNeededFeatures =
    IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE |
    IORING_FEAT_RW_CUR_POS | IORING_FEAT_FAST_POLL | IORING_FEAT_EXT_ARG | IORING_FEAT_CQE_SKIP;

constexpr std::array kNeededOperations = {
    IORING_OP_POLL_ADD, IORING_OP_SENDMSG,      IORING_OP_RECVMSG, IORING_OP_ACCEPT,
    IORING_OP_CONNECT,  IORING_OP_READ,         IORING_OP_WRITE,   IORING_OP_SEND,
    IORING_OP_RECV,     IORING_OP_ASYNC_CANCEL,
};

Error unavailable(int reason, const char* why, const char* remedy) noexcept {
    return {Errc::unsupported, "use", "io_uring", reason, why, remedy};
}

// kernel.io_uring_disabled, since kernel 6.6; 0 where there is none.
char disabled_setting() noexcept {
    char value = '0';
    const int fd = ::open("/proc/sys/kernel/io_uring_disabled", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (::read(fd, &value, 1) != 1) {
            value = '0';
        }
        ::close(fd);
    }
    return value;
}

Error explain(int reason) noexcept {
    switch (reason) {
        case EPERM:
            if (disabled_setting() == '2') {
                return unavailable(reason, "switched off by kernel.io_uring_disabled=2",
                                   "use epoll, or set it to 0");
            }
            if (disabled_setting() == '1') {
                return unavailable(reason,
                                   "kernel.io_uring_disabled=1 keeps it for privileged ones",
                                   "use epoll, set it to 0, or join kernel.io_uring_group");
            }
            return unavailable(reason, "forbidden by a seccomp filter or security module",
                               kUseOther);
        case EACCES:
            return unavailable(reason, "forbidden by a seccomp filter or security module",
                               kUseOther);
        case ENOSYS:
            return unavailable(reason, "missing in this kernel, or hidden by a seccomp filter",
                               kUseOther);
        case EINVAL:
            return unavailable(reason, "the kernel lacks IORING_SETUP_DEFER_TASKRUN", kTooOld);
        case ENOMEM:
            return {Errc::out_of_memory,
                    "use",
                    "io_uring",
                    reason,
                    nullptr,
                    "raise the memory limit of the cgroup, or RLIMIT_MEMLOCK"};
        default:
            return Error::from_errno(reason, "use", "io_uring");
    }
}

bool has_needed_operations(Ring& ring) noexcept {
    constexpr std::size_t kSize =
        sizeof(io_uring_probe) + IORING_OP_LAST * sizeof(io_uring_probe_op);
    alignas(io_uring_probe) std::array<std::byte, kSize> memory{};
    if (ring.register_with(IORING_REGISTER_PROBE, memory.data(), IORING_OP_LAST) < 0) {
        return false;
    }
    const auto& answer = *reinterpret_cast<const io_uring_probe*>(memory.data());
    return std::ranges::all_of(kNeededOperations, [&answer](io_uring_op operation) {
        return io_uring_opcode_supported(&answer, operation) != 0;
    });
}

// An unknown flag is refused with EINVAL.
bool has_absolute_timer(const Ring& ring) noexcept {
    __kernel_timespec long_ago{};
    long_ago.tv_nsec = 1;
    EnterArgument argument{};
    argument.ts = reinterpret_cast<std::uint64_t>(&long_ago);
    const int result =
        io_uring_enter2(static_cast<unsigned>(ring.fd()), 0, 1,
                        IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | kEnterAbsoluteTimer,
                        reinterpret_cast<sigset_t*>(&argument), sizeof argument);
    return result == -ETIME;
}

bool has_message_wake(const Ring& ring) noexcept {
    io_uring_sqe message{};
    message.opcode = IORING_OP_MSG_RING;
    message.fd = ring.fd();
    return io_uring_register(~0U, kRegisterSendMessage, &message, 1) == 0;
}

// Bit 0: it has been found to work; the others: the features.
std::atomic<unsigned> remembered{0};

Result<RingFeatures> probe() {
    Result<Ring> made = Ring::create({8, 16}, {});
    if (!made) {
        return std::unexpected(explain(made.error().system_errno()));
    }
    Ring& ring = *made;
    if ((ring.kernel_features() & kNeededFeatures) != kNeededFeatures ||
        !has_needed_operations(ring)) {
        return std::unexpected(unavailable(0, "the kernel lacks operations", kTooOld));
    }
    if (const int result = ring.start(); result < 0) {
        return std::unexpected(explain(-result));
    }
    RingFeatures features;
    features.has_absolute_timer = has_absolute_timer(ring);
    features.has_no_iowait = (ring.kernel_features() & kFeatureNoIoWait) != 0;
    BERTH_TRY(test_ring(ring));
    features.has_message_wake = has_message_wake(ring);
    return features;
}

}  // namespace

Result<RingFeatures> probe_io_uring() {
    const unsigned bits = remembered.load(std::memory_order_relaxed);
    if ((bits & 1) != 0) {
        return RingFeatures{(bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    }
    const RingFeatures found = BERTH_TRY(probe());
    remembered.store(1U | (found.has_absolute_timer ? 2U : 0U) | (found.has_no_iowait ? 4U : 0U) |
                         (found.has_message_wake ? 8U : 0U),
                     std::memory_order_relaxed);
    return found;
}

void forget_io_uring_probe() noexcept { remembered.store(0, std::memory_order_relaxed); }

Result<Ring> create_ring(const RingSizes& sizes, const RingFeatures& features) {
    Result<Ring> ring = Ring::create(sizes, features);
    if (!ring) {
        return std::unexpected(explain(ring.error().system_errno()));
    }
    return ring;
}

}  // namespace berth::internal
