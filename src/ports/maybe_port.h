// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace berth::internal {

/// A port or none, in one register. (std::optional<std::uint16_t> is written as two parts and read
/// back as one, which stalls the processor for longer than the choice of a port takes.)
class MaybePort {
public:
    constexpr MaybePort() noexcept = default;
    constexpr MaybePort(std::uint16_t port) noexcept : value_(port) {}  // NOLINT: as optional does

    explicit constexpr operator bool() const noexcept { return value_ != kNone; }
    /// Only of one that has a port.
    constexpr std::uint16_t operator*() const noexcept {
        return static_cast<std::uint16_t>(value_);
    }

private:
    static constexpr std::uint32_t kNone = ~0U;
    std::uint32_t value_ = kNone;
};

}  // namespace berth::internal
