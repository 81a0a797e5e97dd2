// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/operation.h>

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

namespace berth::internal {

/// One message of many parts, for the kernel.
struct GatheredSend {
    static constexpr std::size_t kMostParts = 64;

    msghdr message;
    std::array<iovec, kMostParts> parts;
};

inline std::span<const iovec> parts_of(const Operation& operation) noexcept {
    const auto pick = [](const auto& send) {
        return send.parts.empty() ? std::span<const iovec>(&send.single, 1) : send.parts;
    };
    return operation.kind == OperationKind::send_to
               ? pick(static_cast<const SendToOperation&>(operation))
               : pick(static_cast<const SendOperation&>(operation));
}

inline std::size_t size_of(std::span<const iovec> parts) noexcept {
    std::size_t size = 0;
    for (const iovec& part : parts) {
        size += part.iov_len;
    }
    return size;
}

}  // namespace berth::internal
