// SPDX-License-Identifier: Apache-2.0
// The programs' random numbers, compiled for this process.
#include "src/interpose/bpf/random.bpf.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace berth::test {
namespace {

// CPython hashes bytes by SipHash-1-3 under a key of zeros when PYTHONHASHSEED is 0.
TEST(BpfRandom, IsSipHash13) {
    EXPECT_EQ(sip_hash(0, 0, 0), 0xbd60acb658c79e45U);
    EXPECT_EQ(sip_hash(0, 0, 1), 0x1e9f734161d62dd9U);
    EXPECT_EQ(sip_hash(0, 0, 0x0123456789abcdef), 0x8662046e52264db8U);
    EXPECT_NE(sip_hash(1, 0, 0), sip_hash(0, 0, 0));
    EXPECT_NE(sip_hash(0, 1, 0), sip_hash(0, 0, 0));
}

TEST(BpfRandom, StaysBelowItsBoundAndReachesAllOfIt) {
    const auto table = std::make_unique<berth_table>();
    std::set<__u64> seen;
    for (int i = 0; i < 1'000; ++i) seen.insert(random_below(table.get(), 10));
    EXPECT_EQ(seen.size(), 10U);
    EXPECT_EQ(*seen.rbegin(), 9U);
    EXPECT_EQ(random_below(table.get(), 1), 0U);
    EXPECT_LT(random_below(table.get(), 65'535), 65'535U);
    EXPECT_EQ(table->counter, 1'002U);
}

}  // namespace
}  // namespace berth::test
