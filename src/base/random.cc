// SPDX-License-Identifier: Apache-2.0
#include "src/base/random.h"

#include "src/base/assert.h"
#include "src/base/cpu_features.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace berth::internal {
namespace {

// One row of the ChaCha state for eight blocks. The compiler maps it to one AVX2 register or two
// SSE2 ones.
using Row = std::uint32_t __attribute__((vector_size(32)));

constexpr unsigned kDoubleRounds = 10;

inline __attribute__((always_inline)) void rotate_left(Row& row, int bits) {
    row = (row << bits) | (row >> (32 - bits));
}

inline __attribute__((always_inline)) void quarter_round(Row& a, Row& b, Row& c, Row& d) {
    a += b, d ^= a, rotate_left(d, 16);
    c += d, b ^= c, rotate_left(b, 12);
    a += b, d ^= a, rotate_left(d, 8);
    c += d, b ^= c, rotate_left(b, 7);
}

inline __attribute__((always_inline)) void eight_blocks(const std::uint32_t* key,
                                                        std::uint32_t* out) {
    constexpr std::uint32_t kConstants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    Row start[16];
    for (unsigned i = 0; i < 4; ++i) start[i] = Row{} + kConstants[i];
    for (unsigned i = 0; i < 8; ++i) start[4 + i] = Row{} + key[i];
    start[12] = Row{0, 1, 2, 3, 4, 5, 6, 7};
    start[13] = start[14] = start[15] = Row{};
    Row x[16];
    std::memcpy(x, start, sizeof x);
    for (unsigned round = 0; round < kDoubleRounds; ++round) {
        quarter_round(x[0], x[4], x[8], x[12]);
        quarter_round(x[1], x[5], x[9], x[13]);
        quarter_round(x[2], x[6], x[10], x[14]);
        quarter_round(x[3], x[7], x[11], x[15]);
        quarter_round(x[0], x[5], x[10], x[15]);
        quarter_round(x[1], x[6], x[11], x[12]);
        quarter_round(x[2], x[7], x[8], x[13]);
        quarter_round(x[3], x[4], x[9], x[14]);
    }
    for (unsigned i = 0; i < 16; ++i) {
        x[i] += start[i];
        std::memcpy(out + 8 * i, &x[i], sizeof x[i]);
    }
}

void eight_blocks_portable(const std::uint32_t* key, std::uint32_t* out) { eight_blocks(key, out); }

#if defined(__x86_64__)
__attribute__((target("avx2"))) void eight_blocks_avx2(const std::uint32_t* key,
                                                       std::uint32_t* out) {
    eight_blocks(key, out);
}

auto choose_implementation() noexcept {
    return has_avx2() ? eight_blocks_avx2 : eight_blocks_portable;
}
#else
auto choose_implementation() noexcept { return eight_blocks_portable; }
#endif

void key_from_kernel(std::array<std::uint32_t, 8>& key) noexcept {
    auto* bytes = reinterpret_cast<unsigned char*>(key.data());
    std::size_t filled = 0;
    while (filled < sizeof key) {
        const ssize_t size = getrandom(bytes + filled, sizeof key - filled, 0);
        BERTH_ASSERT(size > 0 || errno == EINTR);
        filled += size > 0 ? static_cast<std::size_t>(size) : 0;
    }
}

}  // namespace

void chacha20_eight_blocks(const std::array<std::uint32_t, 8>& key,
                           std::array<std::uint32_t, 128>& out) noexcept {
    static const auto implementation = choose_implementation();
    implementation(key.data(), out.data());
}

void RandomStream::refill() noexcept {
    if (const std::uint64_t token = fork_token(); token_ != token) {
        key_from_kernel(key_);
        token_ = token;
    }
    chacha20_eight_blocks(key_, buffer_);
    std::copy_n(buffer_.begin(), kKeyWords, key_.begin());
    std::fill_n(buffer_.begin(), kKeyWords, 0U);
    position_ = kKeyWords;
}

}  // namespace berth::internal
