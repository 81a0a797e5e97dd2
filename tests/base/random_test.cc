// SPDX-License-Identifier: Apache-2.0
#include "src/base/random.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <thread>

namespace berth::internal {
namespace {

std::array<std::uint32_t, 16> block(const std::array<std::uint32_t, 128>& rows, unsigned index) {
    std::array<std::uint32_t, 16> words;
    for (unsigned row = 0; row < 16; ++row) words[row] = rows[8 * row + index];
    return words;
}

// RFC 8439, appendix A.1, test vectors 1 and 2: key and nonce 0, block counters 0 and 1.
TEST(ChaCha20, AnswersAsTheStandardDoes) {
    auto rows = std::make_unique<std::array<std::uint32_t, 128>>();
    chacha20_eight_blocks({}, *rows);
    EXPECT_EQ(block(*rows, 0),
              (std::array<std::uint32_t, 16>{0xade0b876, 0x903df1a0, 0xe56a5d40, 0x28bd8653,
                                             0xb819d2bd, 0x1aed8da0, 0xccef36a8, 0xc70d778b,
                                             0x7c5941da, 0x8d485751, 0x3fe02477, 0x374ad8b8,
                                             0xf4b8436a, 0x1ca11815, 0x69b687c3, 0x8665eeb2}));
    EXPECT_EQ(block(*rows, 1),
              (std::array<std::uint32_t, 16>{0xbee7079f, 0x7a385155, 0x7c97ba98, 0x0d082d73,
                                             0xa0290fcb, 0x6965e348, 0x3e53c612, 0xed7aee32,
                                             0x7621b729, 0x434ee69c, 0xb03371d5, 0xd539d874,
                                             0x281fed31, 0x45fb0a51, 0x1f0ae1ac, 0x6f4d794b}));
}

// The same, test vector 4: key 00 ff 00 …, block counter 2.
TEST(ChaCha20, UsesItsKey) {
    auto rows = std::make_unique<std::array<std::uint32_t, 128>>();
    chacha20_eight_blocks({0xff00}, *rows);
    EXPECT_EQ(block(*rows, 2),
              (std::array<std::uint32_t, 16>{0xfb4dd572, 0x4bc42ef1, 0xdf922636, 0x327f1394,
                                             0xa78dea8f, 0x5e269039, 0xa1bebbc1, 0xcaf09aae,
                                             0xa25ab213, 0x48a6b46c, 0x1b9d9bcb, 0x092c5be6,
                                             0x546ca624, 0x1bec45d5, 0x87f47473, 0x96f0992e}));
}

TEST(RandomStream, BelowStaysBelowAndReachesEverything) {
    RandomStream stream;
    for (const std::uint32_t bound : {1U, 2U, 3U, 7U, 64U}) {
        std::set<std::uint32_t> seen;
        for (unsigned i = 0; i < 2'000; ++i) {
            const std::uint32_t value = stream.below(bound);
            ASSERT_LT(value, bound);
            seen.insert(value);
        }
        EXPECT_EQ(seen.size(), bound);
    }
    for (unsigned i = 0; i < 1'000; ++i) {
        EXPECT_LT(stream.below(0x8000'0001), 0x8000'0001);
        EXPECT_LT(stream.below(0xffff'ffff), 0xffff'ffff);
    }
}

TEST(RandomStream, BelowIsUniform) {
    constexpr unsigned kBound = 100;
    constexpr unsigned kDraws = 200'000;
    RandomStream stream;
    std::array<unsigned, kBound> hits{};
    for (unsigned i = 0; i < kDraws; ++i) ++hits[stream.below(kBound)];
    double chi_square = 0;
    for (const unsigned count : hits) {
        chi_square += std::pow(count - double{kDraws} / kBound, 2) / (double{kDraws} / kBound);
    }
    // 99 degrees of freedom: outside of 42 .. 190 once in 10^8 runs.
    EXPECT_GT(chi_square, 42);
    EXPECT_LT(chi_square, 190);
}

TEST(RandomStream, NeverRepeatsItsNumbers) {
    RandomStream stream;
    std::set<std::uint64_t> seen;
    for (unsigned i = 0; i < 10'000; ++i) EXPECT_TRUE(seen.insert(stream.next_u64()).second);
}

TEST(RandomStream, TwoStreamsDiffer) {
    RandomStream first;
    RandomStream second;
    EXPECT_NE(first.next_u64(), second.next_u64());
}

TEST(RandomStream, TwoThreadsDiffer) {
    std::uint64_t theirs = 0;
    const std::uint64_t ours = thread_random().next_u64();
    std::thread([&theirs] { theirs = thread_random().next_u64(); }).join();
    EXPECT_NE(ours, theirs);
}

TEST(RandomStream, ForkedChildHasAnother) {
    static_cast<void>(thread_random().next());  // keyed, with numbers left over
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const std::uint64_t value = thread_random().next_u64();
        ::_exit(::write(ends[1], &value, sizeof value) == sizeof value ? 0 : 1);
    }
    std::uint64_t theirs = 0;
    EXPECT_EQ(::read(ends[0], &theirs, sizeof theirs), static_cast<ssize_t>(sizeof theirs));
    EXPECT_NE(thread_random().next_u64(), theirs);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]);
    ::close(ends[1]);
}

}  // namespace
}  // namespace berth::internal
