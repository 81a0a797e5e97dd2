// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/destination_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace berth::internal {
namespace {

constexpr PortRange kRange = {40000, 40099};
using KernelPorts = DestinationPool::KernelPorts;

DestinationKey key_of(std::uint16_t port) {
    return DestinationKey::of(Address::loopback(Family::ipv4, port), Address::any(Family::ipv4));
}

KernelPorts connected(std::initializer_list<std::uint16_t> ports) {
    KernelPorts in_kernel;
    for (const std::uint16_t port : ports) in_kernel.connected[port / 64] |= bit_of(port);
    return in_kernel;
}

class DestinationPoolTest : public testing::Test {
protected:
    DestinationSlot& slot(DestinationHandle handle) { return *pool_->get(handle); }

    // As the supervisor does, with what the kernel would list in between.
    void refresh(const KernelPorts& in_kernel) {
        for (unsigned i = 0; i < DestinationPool::kSlotCount; ++i) {
            if (pool_->begin_refresh(i, kRange, *snapshot_)) {
                pool_->end_refresh(*snapshot_, in_kernel);
            }
        }
    }

    std::unique_ptr<DestinationPool> pool_ = std::make_unique<DestinationPool>();
    std::unique_ptr<DestinationPool::Snapshot> snapshot_ =
        std::make_unique<DestinationPool::Snapshot>();
};

TEST_F(DestinationPoolTest, ADestinationIsFoundAgain) {
    const auto first = pool_->find_or_make(key_of(53), kRange);
    const auto second = pool_->find_or_make(key_of(54), kRange);
    ASSERT_TRUE(first && second);
    EXPECT_NE(first.index, second.index);
    EXPECT_EQ(pool_->find_or_make(key_of(53), kRange).index, first.index);
    EXPECT_EQ(slot(first).unused.free_count(), kRange.size());
    EXPECT_TRUE(slot(first).claim(40000));
    EXPECT_FALSE(slot(first).claim(40000));
    EXPECT_FALSE(slot(first).claim(39999));
    EXPECT_TRUE(slot(second).claim(40000));
}

TEST_F(DestinationPoolTest, TheRemoteAndTheLocalAddressTellDestinationsApart) {
    const Address remote = Address::loopback(Family::ipv4, 53);
    const Address any = Address::any(Family::ipv4);
    EXPECT_NE(DestinationKey::of(remote, any), DestinationKey::of(remote, remote.with_port(0)));
    EXPECT_NE(DestinationKey::of(remote, any), DestinationKey::of(remote.with_port(54), any));
    EXPECT_NE(DestinationKey::of(remote, any),
              DestinationKey::of(Address::loopback(Family::ipv6, 53), Address::any(Family::ipv6)));
}

TEST_F(DestinationPoolTest, MoreDestinationsThanSlotsGetNone) {
    for (unsigned i = 0; i < DestinationPool::kSlotCount; ++i) {
        ASSERT_TRUE(pool_->find_or_make(key_of(static_cast<std::uint16_t>(1 + i)), kRange));
    }
    EXPECT_FALSE(pool_->find_or_make(key_of(60000), kRange));
    EXPECT_TRUE(pool_->find_or_make(key_of(1), kRange));
}

TEST_F(DestinationPoolTest, AClosedPortIsDrawnAgainWhenNothingElseIsLeft) {
    const auto handle = pool_->find_or_make(key_of(53), kRange);
    ASSERT_TRUE(slot(handle).claim(40005));
    slot(handle).note_closed(40005);
    EXPECT_FALSE(slot(handle).claim(40005));
    EXPECT_EQ(slot(handle).reuse_closed(5'000), 1U);
    EXPECT_EQ(slot(handle).reuse_closed(5'000), 0U);
    EXPECT_TRUE(slot(handle).claim(40005));
}

TEST_F(DestinationPoolTest, AClosedPortThatIsRefusedWaitsForATurn) {
    const auto handle = pool_->find_or_make(key_of(53), kRange);
    ASSERT_TRUE(slot(handle).claim(40005));
    EXPECT_FALSE(slot(handle).note_refused(40005)) << "a stranger has it";
    slot(handle).note_closed(40005);
    ASSERT_EQ(slot(handle).reuse_closed(4'900), 1U);
    ASSERT_TRUE(slot(handle).claim(40005));
    EXPECT_TRUE(slot(handle).note_refused(40005));
    EXPECT_EQ(slot(handle).reuse_closed(5'000), 1U) << "nobody has waited before";
    ASSERT_TRUE(slot(handle).claim(40005));
    EXPECT_TRUE(slot(handle).note_refused(40005));
    EXPECT_EQ(slot(handle).reuse_closed(5'499), 0U);
    EXPECT_EQ(slot(handle).reuse_closed(5'500), 1U) << "it is tried again";
    ASSERT_TRUE(slot(handle).claim(40005));
    EXPECT_TRUE(slot(handle).note_refused(40005)) << "and waits again";
}

TEST_F(DestinationPoolTest, OneThatWaitsDoesNotKeepOneThatWasClosed) {
    const auto handle = pool_->find_or_make(key_of(53), kRange);
    ASSERT_TRUE(slot(handle).claim(40005));
    slot(handle).note_closed(40005);
    ASSERT_EQ(slot(handle).reuse_closed(5'000), 1U);
    ASSERT_TRUE(slot(handle).claim(40005));
    ASSERT_TRUE(slot(handle).note_refused(40005));
    ASSERT_TRUE(slot(handle).claim(40006));
    slot(handle).note_closed(40006);
    EXPECT_EQ(slot(handle).reuse_closed(5'000), 1U);
    EXPECT_TRUE(slot(handle).claim(40006));
}

TEST_F(DestinationPoolTest, APortInTimeWaitWaits) {
    const auto handle = pool_->find_or_make(key_of(53), kRange);
    ASSERT_TRUE(slot(handle).claim(40005));
    KernelPorts in_kernel;
    in_kernel.waiting[40005 / 64] |= bit_of(40005);
    refresh(in_kernel);
    EXPECT_FALSE(slot(handle).unused.is_free(40005));
    EXPECT_EQ(slot(handle).reuse_closed(5'000), 1U);
}

TEST_F(DestinationPoolTest, ARefreshFreesWhatTheKernelDoesNotShow) {
    const auto handle = pool_->find_or_make(key_of(53), kRange);
    ASSERT_TRUE(slot(handle).claim(40001));
    ASSERT_TRUE(slot(handle).claim(40002));
    refresh(connected({40001, 40003}));
    EXPECT_FALSE(slot(handle).unused.is_free(40001));
    EXPECT_TRUE(slot(handle).unused.is_free(40002));
    EXPECT_FALSE(slot(handle).unused.is_free(40003)) << "a stranger has it";
}

TEST_F(DestinationPoolTest, APortClaimedDuringARefreshIsLeftAlone) {
    const auto handle = pool_->find_or_make(key_of(53), kRange);
    ASSERT_TRUE(slot(handle).claim(40001));
    ASSERT_TRUE(pool_->begin_refresh(handle.index, kRange, *snapshot_));
    ASSERT_TRUE(slot(handle).claim(40002));
    slot(handle).unclaim(40001);
    ASSERT_TRUE(slot(handle).claim(40001)) << "used in the snapshot, and again since";
    pool_->end_refresh(*snapshot_, KernelPorts{});
    EXPECT_FALSE(slot(handle).unused.is_free(40001));
    EXPECT_FALSE(slot(handle).unused.is_free(40002));
}

TEST_F(DestinationPoolTest, ASlotWithoutUsedPortsIsGivenToAnother) {
    const auto handle = pool_->find_or_make(key_of(53), kRange);
    ASSERT_TRUE(slot(handle).claim(40001));
    refresh(connected({40001}));
    ASSERT_NE(pool_->get(handle), nullptr);
    refresh(KernelPorts{});
    EXPECT_EQ(pool_->get(handle), nullptr);
    const auto again = pool_->find_or_make(key_of(53), kRange);
    ASSERT_TRUE(again);
    EXPECT_NE(again.generation, handle.generation);
    EXPECT_EQ(slot(again).unused.free_count(), kRange.size());
}

TEST_F(DestinationPoolTest, ThreadsNeverClaimAPortTwice) {
    constexpr unsigned kThreadCount = 4;
    std::array<std::vector<std::uint16_t>, kThreadCount> claimed;
    std::vector<std::thread> threads;
    const auto handle = pool_->find_or_make(key_of(53), kRange);
    for (auto& mine : claimed) {
        threads.emplace_back([&] {
            for (std::uint16_t port = kRange.first; port <= kRange.last; ++port) {
                if (slot(handle).claim(port)) mine.push_back(port);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::set<std::uint16_t> all;
    std::size_t count = 0;
    for (const auto& mine : claimed) {
        all.insert(mine.begin(), mine.end());
        count += mine.size();
    }
    EXPECT_EQ(all.size(), count);
}

TEST_F(DestinationPoolTest, AfterARaceEverybodyFindsTheSameSlot) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([this] { pool_->find_or_make(key_of(53), kRange); });
    }
    for (std::thread& thread : threads) thread.join();
    const auto first = pool_->find_or_make(key_of(53), kRange);
    const auto second = pool_->find_or_make(key_of(53), kRange);
    ASSERT_TRUE(first);
    EXPECT_EQ(first.index, second.index);
    EXPECT_EQ(first.generation, second.generation);
}

TEST_F(DestinationPoolTest, ThreadsMakeSlotsWhileAnotherRefreshesThem) {
    std::atomic<bool> is_over{false};
    std::thread refresher([&] {
        while (!is_over) refresh(KernelPorts{});
    });
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; ++t) {
        threads.emplace_back([this, t] {
            for (unsigned i = 0; i < 3'000; ++i) {
                const auto key = key_of(static_cast<std::uint16_t>(1 + (i + t) % 300));
                const auto handle = pool_->find_or_make(key, kRange);
                DestinationSlot* found = pool_->get(handle);
                if (found != nullptr && found->claim(40001)) found->note_closed(40001);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    is_over = true;
    refresher.join();
    refresh(KernelPorts{});
    refresh(KernelPorts{});
    for (unsigned i = 0; i < DestinationPool::kSlotCount; ++i) {
        EXPECT_FALSE(pool_->begin_refresh(i, kRange, *snapshot_)) << i;
    }
}

}  // namespace
}  // namespace berth::internal
