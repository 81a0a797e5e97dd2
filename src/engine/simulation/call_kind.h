// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace berth::internal {

/// The entries of SystemCalls, in its order.
enum class CallKind : std::uint8_t {
    socket,
    bind,
    connect,
    getsockname,
    getsockopt,
    setsockopt,
    sendto,
    recv,
    listen,
    accept4,
    shutdown,
    close,
    getpeername,
    send,
    recvmsg,
    sendmsg,
    recvmmsg,
    sendmmsg,
    preadv2,
    pwritev2,
    splice,
    sendfile,
    ioctl,
    ppoll,
    pselect,
    epoll_ctl,
    epoll_pwait2,
    epoll_pwait,
    clock_gettime,
};
inline constexpr std::size_t kCallKindCount = 29;

std::string_view to_string(CallKind kind) noexcept;

/// How many calls were made, failed ones included.
class CallCounts {
public:
    std::uint64_t of(CallKind kind) const noexcept {
        return counts_[static_cast<std::size_t>(kind)];
    }
    std::uint64_t total() const noexcept {
        std::uint64_t sum = 0;
        for (const std::uint64_t count : counts_) sum += count;
        return sum;
    }
    void add(CallKind kind) noexcept { ++counts_[static_cast<std::size_t>(kind)]; }

private:
    std::array<std::uint64_t, kCallKindCount> counts_{};
};

}  // namespace berth::internal
