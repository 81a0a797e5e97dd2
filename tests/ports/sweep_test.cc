// SPDX-License-Identifier: Apache-2.0
#include "src/ports/sweep.h"

#include "tests/support/core_table.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace berth::internal {
namespace {

using test::address;
using test::CoreTable;

constexpr PortRange kSmall = {40000, 40015};

// The word of a process that has exited.
OwnerWord dead_word() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    const OwnerWord word = with_kind(OwnerKind::process, ProcessIdentity{child, 0}.packed());
    ::waitpid(child, nullptr, 0);
    return word;
}

TEST(Sweep, FreesThePortsOfDeadProcessesInEverySpace) {
    CoreTable table(kSmall);
    const OwnerWord dead = dead_word();
    ASSERT_TRUE(table->claim(table.wildcard(true, true), 40000, dead));
    ASSERT_TRUE(table->claim(table.bind(address("127.0.0.1")), 40001, dead | kBoundFlag));
    ASSERT_TRUE(table->claim(table.wildcard(true, false), 40002, own_word()));
    ASSERT_TRUE(table->claim(table.wildcard(true, false), 40003, kernel_word(1)));
    EXPECT_EQ(sweep_dead_holders(*table), 3U);
    EXPECT_EQ(sweep_dead_holders(*table), 0U);
    EXPECT_TRUE(table.space(0).free.is_free(40000));
    EXPECT_TRUE(table.space(1).free.is_free(40000));
    EXPECT_FALSE(table.space(0).free.is_free(40002));
    EXPECT_FALSE(table.space(0).free.is_free(40003));
}

TEST(Sweep, PortsOfDeadProcessesRestFirst) {
    CoreTable table(kSmall, 3'600'000);
    ASSERT_TRUE(table->claim(table.wildcard(true, false), 40000, dead_word()));
    EXPECT_EQ(sweep_dead_holders(*table), 1U);
    EXPECT_TRUE(table.space(0).resting.is_resting(40000));
}

TEST(Sweep, ReusedPidIsAnotherProcess) {
    CoreTable table(kSmall);
    ProcessIdentity self = process_of(own_word());
    ++self.start_ticks;
    ASSERT_TRUE(table->claim(table.wildcard(true, false), 40000,
                             with_kind(OwnerKind::process, self.packed())));
    EXPECT_EQ(sweep_dead_holders(*table), 1U);
}

TEST(SweepOrphans, FreesAPortWithoutAnOwnerAfterTheGraceTime) {
    CoreTable table(kSmall);
    table->note_use(0);
    ASSERT_TRUE(table.space(0).free.claim(40000));
    EXPECT_EQ(sweep_orphans(*table, 5'000), 0U);
    EXPECT_EQ(sweep_orphans(*table, 5'000 + kOrphanGraceMs - 1), 0U);
    EXPECT_FALSE(table.space(0).free.is_free(40000));
    EXPECT_EQ(sweep_orphans(*table, 5'000 + kOrphanGraceMs), 1U);
    EXPECT_TRUE(table.space(0).free.is_free(40000));
    EXPECT_EQ(table.space(0).owner(40000), kNobody);
}

TEST(SweepOrphans, PortThatGotAnOwnerInBetweenBeginsAnew) {
    CoreTable table(kSmall);
    table->note_use(0);
    ASSERT_TRUE(table.space(0).free.claim(40000));
    sweep_orphans(*table, 0);
    ASSERT_TRUE(table->claim_exactly(table.wildcard(true, false), 40000, own_word()));
    EXPECT_EQ(sweep_orphans(*table, 500), 0U);
    ASSERT_TRUE(table.space(0).replace_owner(40000, own_word(), kNobody));
    EXPECT_EQ(sweep_orphans(*table, 1'000), 0U) << "seen again for the first time";
    EXPECT_EQ(sweep_orphans(*table, 2'000), 1U);
}

TEST(SweepOrphans, OwnedFreeAndRestingPortsAreNoOrphans) {
    CoreTable table(kSmall, 3'600'000);
    const Footprint v4 = table.wildcard(true, false);
    ASSERT_TRUE(table->claim(v4, 40000, own_word()));
    ASSERT_TRUE(table->claim(v4, 40001, own_word()));
    table->release(v4, 40001, own_word());
    sweep_orphans(*table, 0);
    EXPECT_EQ(sweep_orphans(*table, 10'000), 0U);
    EXPECT_TRUE(table.space(0).resting.is_resting(40001));
    EXPECT_EQ(table.space(0).owner(40000), own_word());
}

}  // namespace
}  // namespace berth::internal
