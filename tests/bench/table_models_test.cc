// SPDX-License-Identifier: Apache-2.0
#include "bench/table/allocators.h"
#include "bench/table/flat_bitmap.h"
#include "bench/table/pair_timing.h"
#include "bench/table/permutation_lock.h"
#include "bench/table/random_scan.h"
#include "bench/table/subject.h"
#include "bench/table/summary_tree.h"
#include "bench/table/uniformity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace berth::bench {
namespace {

constexpr PortRange kRange = {40000, 41999};

std::unique_ptr<Subject> subject_of(std::string_view allocator) {
    auto subject = make_subject(allocator, kRange);
    EXPECT_TRUE(subject) << (subject ? "" : subject.error().message());
    return subject ? std::move(*subject) : nullptr;
}

class EveryTableAllocator : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryTableAllocator, HandsOutEveryPortOnceAndThenFails) {
    const auto subject = subject_of(GetParam());
    std::set<std::uint32_t> taken;
    for (std::uint32_t count = 0; count < kRange.size(); ++count) {
        const auto index = subject->take();
        ASSERT_TRUE(index) << count;
        ASSERT_LT(*index, kRange.size());
        EXPECT_TRUE(taken.insert(*index).second) << *index;
    }
    EXPECT_FALSE(subject->take());
}

TEST_P(EveryTableAllocator, FindsTheLastFreePort) {
    const auto subject = subject_of(GetParam());
    for (std::uint32_t count = 0; count < kRange.size(); ++count) {
        ASSERT_TRUE(subject->take());
    }
    for (const std::uint32_t index : {0U, 63U, 64U, 1'023U, kRange.size() - 1}) {
        subject->release(index);
        EXPECT_EQ(subject->take(), index);
    }
}

TEST_P(EveryTableAllocator, CountsPairsFromManyThreads) {
    const auto subject = subject_of(GetParam());
    const PairTiming timing = time_pairs(*subject, 4, std::chrono::milliseconds(5));
    EXPECT_GT(timing.pairs.succeeded, 0U);
    EXPECT_EQ(timing.pairs.failed, 0U);
    EXPECT_GT(timing.p50_ns, 0);
    EXPECT_GE(timing.p99_ns, timing.p50_ns);
}

std::string test_name(const testing::TestParamInfo<std::string_view>& parameter) {
    std::string name(parameter.param);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryTableAllocator,
                         testing::ValuesIn(table_allocators().begin(), table_allocators().end()),
                         test_name);

template <class Model>
class EveryTableModel : public testing::Test {};
using TableModels = testing::Types<RandomScan, FlatBitmap, SummaryTree, PermutationLock>;
TYPED_TEST_SUITE(EveryTableModel, TableModels);

TYPED_TEST(EveryTableModel, NeverGivesAPortToTwoThreads) {
    constexpr std::uint32_t kCount = 300;
    TypeParam model(kCount);
    std::vector<std::atomic<bool>> is_taken(kCount);
    std::atomic<unsigned> doubles{0};
    const auto work = [&] {
        std::vector<std::uint32_t> mine;
        for (unsigned turn = 0; turn < 3'000; ++turn) {
            if (const auto index = model.take(internal::thread_random())) {
                doubles += is_taken[*index].exchange(true) ? 1 : 0;
                mine.push_back(*index);
            }
            if (mine.size() > 60) {
                const std::uint32_t index = mine[turn % mine.size()];
                std::erase(mine, index);
                is_taken[index] = false;
                model.release(index);
            }
        }
    };
    {
        std::vector<std::jthread> threads;
        for (unsigned thread = 0; thread < 4; ++thread) {
            threads.emplace_back(work);
        }
    }
    EXPECT_EQ(doubles, 0U);
}

/// The p-value of 64,000 draws with 64 free ports in a row and 64 alone.
double uniformity_of(std::string_view allocator) {
    const auto subject = subject_of(allocator);
    for (std::uint32_t count = 0; count < kRange.size(); ++count) {
        EXPECT_TRUE(subject->take());
    }
    const auto pattern = uniformity_pattern(kRange.size());
    for (const std::uint32_t index : pattern) {
        subject->release(index);
    }
    DrawLimit limit;
    limit.draws = 64'000;
    limit.time = std::chrono::seconds(10);
    const Uniformity result = measure_uniformity(pattern, limit, [&subject] {
        const auto index = subject->take();
        subject->release(index.value());
        return index;
    });
    EXPECT_EQ(result.draws, limit.draws);
    return result.chi2_p.value_or(-1);
}

// One in a million runs of a uniform choice scatters so much; a biased one always does.
constexpr double kSuspicious = 1e-6;

TEST(TableUniformity, BerthAndTheUniformAlternativesPass) {
    for (const char* const allocator :
         {"berth", "berth-shared", "flat-bitmap", "permutation-lock"}) {
        EXPECT_GT(uniformity_of(allocator), kSuspicious) << allocator;
    }
}

TEST(TableUniformity, ABiasedChoiceIsSeen) {
    EXPECT_LT(uniformity_of("random-scan"), kSuspicious);
    EXPECT_LT(uniformity_of("summary-tree"), kSuspicious);
}

TEST(TableUniformity, ThePatternHas64PortsInARowAnd64Alone) {
    const auto pattern = uniformity_pattern(28'232);
    ASSERT_EQ(pattern.size(), 128U);
    unsigned neighbours = 0;
    for (std::size_t place = 1; place < pattern.size(); ++place) {
        ASSERT_GT(pattern[place], pattern[place - 1]);
        neighbours += pattern[place] == pattern[place - 1] + 1 ? 1U : 0U;
    }
    EXPECT_EQ(neighbours, 63U);
    EXPECT_LT(pattern.back(), 28'232U);
}

TEST(TableUniformity, TooFewDrawsGiveNoPValue) {
    const auto pattern = uniformity_pattern(2'000);
    DrawLimit limit;
    limit.draws = 300;
    limit.time = std::chrono::seconds(10);
    const Uniformity result =
        measure_uniformity(pattern, limit, [&] { return std::optional(pattern[7]); });
    EXPECT_EQ(result.draws, 300U);
    EXPECT_EQ(result.hits_max, 300U);
    EXPECT_FALSE(result.chi2_p);
}

TEST(FreeBits, SelectsTheBitOfARank) {
    const std::uint64_t word = 0x8000'0000'0000'1011;
    EXPECT_EQ(select_bit(word, 0), 0U);
    EXPECT_EQ(select_bit(word, 1), 4U);
    EXPECT_EQ(select_bit(word, 2), 12U);
    EXPECT_EQ(select_bit(word, 3), 63U);
}

TEST(TableAllocators, AnUnknownNameIsRefused) {
    const auto subject = make_subject("magic", kRange);
    ASSERT_FALSE(subject);
    EXPECT_EQ(subject.error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace berth::bench
