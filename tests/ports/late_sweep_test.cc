// SPDX-License-Identifier: Apache-2.0
// Orphans are marked in the table, so that programs which live for less than the grace time take
// them back together.
#include "src/ports/sweep.h"

#include "tests/support/core_table.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace berth::internal {
namespace {

using test::CoreTable;

constexpr PortRange kSmall = {40000, 40015};
constexpr std::uint64_t kSeenMs = 5'000;

void make_orphan(TableCore& core, std::uint16_t port) {
    core.note_use(kWildcardSpace);
    ASSERT_TRUE(core.space(kWildcardSpace).free.claim(port));
}

TEST(LateSweep, AnotherViewOfTheTableFreesWhatTheFirstHasMarked) {
    CoreTable table(kSmall);
    make_orphan(*table, 40000);
    {
        TableCore first(table.layout());
        EXPECT_EQ(sweep_orphans(first, kSeenMs), 0U);
    }
    TableCore second(table.layout());
    EXPECT_EQ(sweep_orphans(second, kSeenMs + kOrphanGraceMs - 1), 0U);
    EXPECT_FALSE(table.space(0).free.is_free(40000));
    TableCore third(table.layout());
    EXPECT_EQ(sweep_orphans(third, kSeenMs + kOrphanGraceMs), 1U);
    EXPECT_TRUE(table.space(0).free.is_free(40000));
}

// Returns how many orphans a new process has freed.
unsigned sweep_in_another_process(TableCore& core, std::uint64_t now_ms) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(static_cast<int>(sweep_orphans(core, now_ms)));
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    return static_cast<unsigned>(WEXITSTATUS(status));
}

TEST(LateSweep, AnotherProcessFreesWhatOneThatHasExitedHasMarked) {
    // A shared table belongs to a network namespace, that is all it is needed for here.
    test::in_network_namespace([] {
        auto memory = TableMemory::create_memfd({Protocol::udp, 0, kSmall, false});
        ASSERT_TRUE(test::succeeded(memory));
        TableCore core(memory->layout());
        PortBits allowed{};
        for (unsigned port = kSmall.first; port <= kSmall.last; ++port) {
            allowed[port / 64] |= bit_of(static_cast<std::uint16_t>(port));
        }
        core.set_allowed(kSmall, allowed);
        make_orphan(core, 40000);
        make_orphan(core, 40001);
        EXPECT_EQ(sweep_in_another_process(core, kSeenMs), 0U);
        EXPECT_EQ(sweep_in_another_process(core, kSeenMs + kOrphanGraceMs), 2U);
        EXPECT_TRUE(core.space(kWildcardSpace).free.is_free(40000));
        EXPECT_TRUE(core.space(kWildcardSpace).free.is_free(40001));
    });
}

TEST(LateSweep, MarkedPortIsStillItsFindersToBind) {
    CoreTable table(kSmall);
    make_orphan(*table, 40000);
    EXPECT_EQ(sweep_orphans(*table, kSeenMs), 0U);
    const Footprint v4 = table.wildcard(true, false);
    const OwnerWord owner = claim_word() | kBoundFlag;
    ASSERT_TRUE(table->claim_exactly(v4, 40000, owner));
    EXPECT_EQ(sweep_orphans(*table, kSeenMs + kOrphanGraceMs), 0U);
    EXPECT_EQ(table.space(0).owner(40000), owner);
}

}  // namespace
}  // namespace berth::internal
