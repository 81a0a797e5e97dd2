// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an echo client sends. Every message differs from every other one in each of its words, so
// that an answer of another connection, or out of order, is noticed.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace berth::bench {

inline constexpr std::size_t kMessageSize = 64;
using Message = std::array<std::uint64_t, kMessageSize / sizeof(std::uint64_t)>;

/// Number `number` (from 0) on a connection.
constexpr Message make_message(std::uint32_t connection, std::uint64_t number) noexcept {
    // Odd constants of the golden ratio and of pi: products that differ in their high bits as well.
    std::uint64_t word = (number + 1) * 0x9e37'79b9'7f4a'7c15 ^ (connection + 1ULL) << 40;
    Message message{};
    for (std::uint64_t& part : message) {
        part = word;
        word += 0x2438'6a88'85a3'08d3;
    }
    return message;
}

/// Takes the answers of one connection, in whatever pieces they come.
class AnswerCheck {
public:
    std::uint64_t message_count() const noexcept { return message_count_; }
    bool is_intact() const noexcept { return is_intact_; }

    /// How many messages became whole by these bytes.
    unsigned take(std::uint32_t connection, std::span<const std::byte> data) noexcept {
        unsigned completed = 0;
        while (!data.empty()) {
            const Message expected = make_message(connection, message_count_);
            const std::size_t size = std::min(data.size(), kMessageSize - offset_);
            const auto* const bytes = reinterpret_cast<const std::byte*>(expected.data());
            is_intact_ = is_intact_ && std::memcmp(data.data(), bytes + offset_, size) == 0;
            data = data.subspan(size);
            offset_ += static_cast<std::uint32_t>(size);
            if (offset_ == kMessageSize) {
                offset_ = 0;
                ++message_count_;
                ++completed;
            }
        }
        return completed;
    }

private:
    std::uint64_t message_count_ = 0;
    std::uint32_t offset_ = 0;  // of the message that has begun to come
    bool is_intact_ = true;
};

}  // namespace berth::bench
