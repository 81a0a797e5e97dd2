// SPDX-License-Identifier: Apache-2.0
// Threads that take, hold and give back the same few ports as fast as they can. Each marks what it
// holds in an array of its own kind, which tells when two have the same port at once.
#include "src/ports/lease_book.h"
#include "src/ports/sweep.h"
#include "src/ports/table_core.h"

#include "tests/support/core_table.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using std::chrono::milliseconds;
using test::address;
using test::CoreTable;
using test::in_network_namespace;

constexpr unsigned kThreadCount = 4;
constexpr milliseconds kDuration{250};
constexpr unsigned kV4 = static_cast<unsigned>(Family::ipv4);
constexpr unsigned kV6 = static_cast<unsigned>(Family::ipv6);

// Who has each port: a bit for each kind of holder, of which at most one may be there.
class Marks {
public:
    void hold(std::uint16_t port, unsigned mark = 1) {
        if (marks_[port].fetch_or(mark, std::memory_order_relaxed) != 0) ++doubled_count_;
    }
    void let_go(std::uint16_t port, unsigned mark = 1) {
        marks_[port].fetch_and(~mark, std::memory_order_relaxed);
    }
    unsigned doubled_count() const { return doubled_count_; }

private:
    std::array<std::atomic<unsigned>, kPortCount> marks_{};
    std::atomic<unsigned> doubled_count_{0};
};

// Runs `step(thread)` again and again in each thread.
void hammer(unsigned thread_count, milliseconds duration,
            const std::function<void(unsigned)>& step) {
    const auto deadline = std::chrono::steady_clock::now() + duration;
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < thread_count; ++thread) {
        threads.emplace_back([&, thread] {
            while (std::chrono::steady_clock::now() < deadline) {
                for (unsigned i = 0; i < 50; ++i) step(thread);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

void expect_all_free(CoreTable& table, std::uint32_t count) {
    table.end_rests();
    for (unsigned index = 0; index < kSpaceCount; ++index) {
        EXPECT_EQ(table.space(index).free.free_count(), count) << "space " << index;
        EXPECT_EQ(table.space(index).free.free_count_hint(), count) << "space " << index;
        EXPECT_EQ(table.space(index).resting.count(), 0U) << "space " << index;
    }
}

struct Limits {
    PortRange range;
    std::uint32_t rest_period_ms;
};

// Fewer ports than threads want, as many, and more; with rests of an epoch of a few milliseconds,
// which the clock ends, and of an hour, which only need ends.
constexpr Limits kLimits[] = {{{40000, 40002}, 0},
                              {{40000, 40002}, 12},
                              {{40000, 40002}, 3'600'000},
                              {{40000, 40299}, 12},
                              {{40000, 40299}, 3'600'000}};

TEST(ConcurrentTable, GivesNoPortTwiceAndLosesNone) {
    for (const Limits& limits : kLimits) {
        CoreTable table(limits.range, limits.rest_period_ms);
        const auto marks = std::make_unique<Marks>();
        hammer(kThreadCount, kDuration, [&](unsigned thread) {
            const Footprint footprint = table.wildcard(true, thread % 2 == 0);
            if (const MaybePort port = table->take(footprint, {}, own_word())) {
                marks->hold(*port);
                marks->let_go(*port);
                table->release(footprint, *port, own_word());
            }
        });
        EXPECT_EQ(marks->doubled_count(), 0U);
        expect_all_free(table, limits.range.size());
    }
}

// A port on an address and the wildcard exclude each other; two addresses do not.
TEST(ConcurrentTable, OverlappingSpacesNeverHoldTheSamePort) {
    constexpr unsigned kWildcard = 3;
    for (const Limits& limits : kLimits) {
        CoreTable table(limits.range, limits.rest_period_ms);
        const auto first = std::make_unique<Marks>();
        const auto second = std::make_unique<Marks>();
        hammer(kThreadCount, kDuration, [&](unsigned thread) {
            const bool is_wildcard = thread % 2 == 0;
            const bool is_first = thread == 1;
            const Footprint footprint =
                is_wildcard ? table.wildcard(true, thread == 0)
                            : table.bind(address(is_first ? "127.0.0.1" : "127.0.0.2"));
            const MaybePort port = table->take(footprint, {}, own_word());
            if (!port) return;
            if (is_wildcard || is_first) first->hold(*port, kWildcard);
            if (is_wildcard || !is_first) second->hold(*port, kWildcard);
            if (is_wildcard || is_first) first->let_go(*port, kWildcard);
            if (is_wildcard || !is_first) second->let_go(*port, kWildcard);
            table->release(footprint, *port, own_word());
        });
        EXPECT_EQ(first->doubled_count() + second->doubled_count(), 0U)
            << limits.range.size() << " ports, rest " << limits.rest_period_ms << " ms";
        expect_all_free(table, limits.range.size());
    }
}

// One thread can be stopped while it moves ports from their rest to the free set. The others go
// looking for them a bounded number of times, and then rather say no than wait. A machine may stop
// it for long, but hardly each time.
TEST(ConcurrentTable, ThreadThatIsNeverOneTooManyGetsAPort) {
    constexpr unsigned kTries = 5;
    const auto has_hardly_failed = [](std::uint32_t rest_period_ms) {
        CoreTable table({40000, 40000 + kThreadCount - 1}, rest_period_ms);
        std::atomic<unsigned> exhausted_count{0};
        std::atomic<unsigned> taken_count{0};
        hammer(kThreadCount, kDuration, [&](unsigned) {
            const Footprint footprint = table.wildcard(true, false);
            if (const MaybePort port = table->take(footprint, {}, own_word())) {
                table->release(footprint, *port, own_word());
                ++taken_count;
            } else {
                ++exhausted_count;
            }
        });
        if (rest_period_ms == 0) {
            EXPECT_EQ(exhausted_count.load(), 0U) << taken_count << " taken";
        }
        expect_all_free(table, kThreadCount);
        return exhausted_count <= taken_count / 1'000;
    };
    for (const std::uint32_t rest_period_ms : {0U, 12U, 3'600'000U}) {
        bool is_good = false;
        for (unsigned number = 0; number < kTries && !is_good; ++number) {
            is_good = has_hardly_failed(rest_period_ms);
        }
        EXPECT_TRUE(is_good) << "rest " << rest_period_ms << " ms";
    }
}

TEST(ConcurrentTable, NamedPortHasOneWinner) {
    for (const std::uint32_t rest_period_ms : {0U, 12U}) {
        CoreTable table({40000, 40003}, rest_period_ms);
        const auto marks = std::make_unique<Marks>();
        hammer(kThreadCount, kDuration, [&](unsigned thread) {
            const Footprint footprint = table.wildcard(true, true);
            // Another process's word for each thread: claim_exactly() is for strangers to each
            // other.
            const OwnerWord owner = own_word();
            const auto number = static_cast<std::uint16_t>(40000 + thread_random().below(4));
            const bool is_named = thread % 2 == 0;
            const MaybePort port = !is_named ? table->take(footprint, {}, owner)
                                   : table->claim_exactly(footprint, number, owner)
                                       ? MaybePort(number)
                                       : MaybePort();
            if (!port) return;
            marks->hold(*port);
            marks->let_go(*port);
            table->release(footprint, *port, owner);
        });
        EXPECT_EQ(marks->doubled_count(), 0U);
        // What two claimants of a named port do to each other can leave a port to the sweep.

        sweep_orphans(*table, coarse_now_ms());
        sweep_orphans(*table, coarse_now_ms() + kOrphanGraceMs);
        expect_all_free(table, 4);
    }
}

TEST(ConcurrentTable, RangeThatChangesAllTheTimeLosesNoPort) {
    CoreTable table({40000, 40063}, 12);
    const auto marks = std::make_unique<Marks>();
    hammer(kThreadCount, kDuration, [&](unsigned thread) {
        if (thread == 0) {
            table.allow({40000, static_cast<std::uint16_t>(40000 + thread_random().below(64))});
            return;
        }
        const Footprint footprint = table.wildcard(true, true);
        const MaybePort port = table->take(footprint, {}, own_word());
        if (!port) return;
        marks->hold(*port);
        marks->let_go(*port);
        table->release(footprint, *port, own_word());
    });
    EXPECT_EQ(marks->doubled_count(), 0U);
    // A port that was on its way while its place went is nobody's until the sweep finds it.
    table.allow({40000, 40063});

    sweep_orphans(*table, coarse_now_ms());
    sweep_orphans(*table, coarse_now_ms() + kOrphanGraceMs);
    table.end_rests();
    EXPECT_EQ(table.space(kV4).free.free_count(), 64U);
    EXPECT_EQ(table.space(kV6).free.free_count(), 64U);
}

TEST(ConcurrentTable, LeasesNeverOverlapAndComeBack) {
    CoreTable table({40000, 40063}, 12);
    const auto marks = std::make_unique<Marks>();
    hammer(kThreadCount, kDuration, [&](unsigned thread) {
        constexpr LeaseShape kShapes[] = {LeaseShape::any, LeaseShape::consecutive,
                                          LeaseShape::even_odd_pairs};
        const auto lease =
            grant_lease(*table, {.count = 2 + 2 * thread, .shape = kShapes[thread % 3]});
        if (!lease) return;
        for (const std::uint16_t port : lease->ports) marks->hold(port);
        for (const std::uint16_t port : lease->ports) marks->let_go(port);
        const std::uint16_t first = lease->ports.front();
        const auto claimed = claim_leased(*table, first, lease->token, own_word());
        EXPECT_TRUE(test::succeeded(claimed));
        EXPECT_TRUE(test::succeeded(give_back_lease(*table, lease->token)));
        if (claimed) table->release(*claimed, first, own_word());
    });
    EXPECT_EQ(marks->doubled_count(), 0U);
    expect_all_free(table, 64);
}

TEST(ConcurrentTable, LeasesThatExpireWhileTheyAreClaimedAndRenewedAreNeverDoubled) {
    CoreTable table({40000, 40015}, 0);
    const auto marks = std::make_unique<Marks>();
    std::atomic<unsigned> claimed_count{0};
    hammer(kThreadCount, kDuration, [&](unsigned thread) {
        if (thread == 0) {
            expire_leases(*table);
            return;
        }
        const auto lease = grant_lease(*table, {.count = 2, .expires_in = milliseconds(1)});
        if (!lease) return;
        for (unsigned i = 0; i < thread_random().below(200); ++i) {
            static_cast<void>(renew_lease(*table, lease->token, milliseconds(1)));
        }
        for (const std::uint16_t port : lease->ports) {
            const auto claimed = claim_leased(*table, port, lease->token, own_word());
            if (!claimed) continue;
            ++claimed_count;
            marks->hold(port);
            marks->let_go(port);
            table->release(*claimed, port, own_word());
        }
    });
    EXPECT_EQ(marks->doubled_count(), 0U);
    EXPECT_GT(claimed_count.load(), 0U);
    EXPECT_TRUE(test::poll_until([&] {
        expire_leases(*table);
        return table.space(kV4).free.free_count() == 16 && table.space(kV6).free.free_count() == 16;
    }));
}

TEST(ConcurrentTable, ReconcileWhileThreadsBindAndCloseLosesNothing) {
    in_network_namespace({.range = {40000, 40127}}, [] {
        for (const Protocol protocol : test::kProtocols) {
            PortTable table = test::new_table(protocol, {.rest_period = milliseconds(10)});
            const auto marks = std::make_unique<Marks>();
            hammer(kThreadCount, milliseconds(400), [&](unsigned thread) {
                if (thread == 0) {
                    EXPECT_TRUE(test::succeeded(table.reconcile()));
                    return;
                }
                Socket socket = test::new_socket(protocol, Family::ipv4);
                auto port = table.bind(socket, Address::any(Family::ipv4));
                if (!port) return;
                EXPECT_EQ(test::local_of(socket.fd()).port(), port->number());
                marks->hold(port->number());
                marks->let_go(port->number());
                socket.close();
            });
            EXPECT_EQ(marks->doubled_count(), 0U);
            EXPECT_TRUE(test::succeeded(table.reconcile()));
            const TableStatistics after = table.statistics();
            EXPECT_EQ(after.free_count + after.resting_count, 128U);
        }
    });
}

TEST(ConcurrentTable, ThreadsConnectWithoutDuplicates) {
    in_network_namespace({.range = {40000, 40015}}, [] {
        const Address remotes[] = {address("127.0.0.1:20000"), address("127.0.0.2:20000")};
        const Descriptor servers[] = {test::listener(remotes[0]), test::listener(remotes[1])};
        for (const Descriptor& server : servers) ::fcntl(server.get(), F_SETFL, O_NONBLOCK);
        PortTable table = test::new_table(Protocol::tcp, {.rest_period = milliseconds(0)});
        const std::array<std::unique_ptr<Marks>, 2> marks = {std::make_unique<Marks>(),
                                                             std::make_unique<Marks>()};
        std::atomic<unsigned> connected_count{0};
        const auto connect_one = [&](unsigned thread) {
            const unsigned target = thread % 2;
            Socket socket = test::new_socket(Protocol::tcp, Family::ipv4);
            auto port = table.connect(socket, remotes[target]);
            if (!port) {
                EXPECT_TRUE(test::failed_with(port, Errc::ports_exhausted));
                return;
            }
            ++connected_count;
            EXPECT_EQ(test::local_of(socket.fd()).port(), port->number());
            marks[target]->hold(port->number());
            marks[target]->let_go(port->number());
            const Descriptor accepted(::accept(servers[target].get(), nullptr, nullptr));
            const linger without_time_wait = {1, 0};
            ::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &without_time_wait,
                         sizeof without_time_wait);
            socket.close();
        };
        for (int round = 0; round < 10 && connected_count <= 100; ++round) {
            hammer(kThreadCount, kDuration, connect_one);
        }
        EXPECT_EQ(marks[0]->doubled_count() + marks[1]->doubled_count(), 0U);
        EXPECT_GT(connected_count.load(), 100U);
    });
}

}  // namespace
}  // namespace berth::internal
