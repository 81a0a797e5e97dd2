// SPDX-License-Identifier: Apache-2.0
#pragma once

// Unpredictable numbers for the choice of ports (RFC 6056): ChaCha20 with a key from getrandom(),
// a stream per thread, eight blocks at a time, keyed anew in a forked child. Each refill replaces
// the key by a part of its own output and each number is erased when it is handed out, so a leaked
// state tells nothing about earlier choices. The state never lies in shared memory.
//
// One stream serves every table of its thread: outputs of a secure stream are independent, so a
// second table learns no more from the first than with a key of its own.
//
// Source: RFC 8439 (ChaCha20), Lemire 2019 (bounded numbers without division).

#include "src/base/fork_page.h"

#include <array>
#include <cstdint>

namespace berth::internal {

class RandomStream {
public:
    constexpr RandomStream() noexcept = default;
    RandomStream(const RandomStream&) = delete;
    RandomStream& operator=(const RandomStream&) = delete;

    /// Uniform over 0 .. 2^32 − 1. **Cost:** about 3 ns.
    std::uint32_t next() noexcept {
        if (position_ == kBufferWords || token_ != fork_token()) {
            refill();
        }
        std::uint32_t& word = buffer_[position_++];
        const std::uint32_t value = word;
        word = 0;
        return value;
    }

    std::uint64_t next_u64() noexcept {
        const std::uint64_t high = next();
        return high << 32 | next();
    }

    /// Uniform over 0 .. bound − 1, without modulo bias. `bound` >= 1.
    std::uint32_t below(std::uint32_t bound) noexcept {
        std::uint64_t product = static_cast<std::uint64_t>(next()) * bound;
        if (static_cast<std::uint32_t>(product) < bound) {
            const std::uint32_t threshold = (0U - bound) % bound;
            while (static_cast<std::uint32_t>(product) < threshold) {
                product = static_cast<std::uint64_t>(next()) * bound;
            }
        }
        return static_cast<std::uint32_t>(product >> 32);
    }

    /// Has a key of this process. Until then the next number needs the kernel's getrandom().
    bool is_keyed() const noexcept { return token_ == fork_token(); }

private:
    static constexpr unsigned kBufferWords = 128;
    static constexpr unsigned kKeyWords = 8;

    void refill() noexcept;

    alignas(32) std::array<std::uint32_t, kBufferWords> buffer_{};
    std::array<std::uint32_t, kKeyWords> key_{};
    unsigned position_ = kBufferWords;
    std::uint64_t token_ = 0;  // fork_token() of the process that keyed the stream; 0: not keyed
};

inline constinit thread_local RandomStream thread_stream;

/// The calling thread's stream.
inline RandomStream& thread_random() noexcept { return thread_stream; }

/// One run of the generator: 8 blocks under `key`, counter 0..7, nonce 0, stored row by row
/// (out[8 × row + block]). For known-answer tests.
void chacha20_eight_blocks(const std::array<std::uint32_t, 8>& key,
                           std::array<std::uint32_t, 128>& out) noexcept;

}  // namespace berth::internal
