// SPDX-License-Identifier: Apache-2.0
// What happens when a table has no port left, or believes so.
#include <berth/ports.h>

#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace berth {
namespace {

using std::chrono::milliseconds;
using test::address;
using test::failed_with;
using test::in_network_namespace;
using test::kFamilies;
using test::kProtocols;
using test::new_socket;
using test::new_table;
using test::poll_until;
using test::stranger;
using test::strangers;
using test::succeeded;
using testing::HasSubstr;

constexpr PortRange kSmall = {40000, 40015};
const TableOptions kNoRest = {.rest_period = milliseconds(0)};

using Held = std::vector<std::pair<Socket, Port>>;

// Binds until there is no port left.
Held bind_all(PortTable& table, const Address& local) {
    Held held;
    while (true) {
        Socket socket = new_socket(table.protocol(), local.family());
        auto port = table.bind(socket, local);
        if (!port) {
            EXPECT_TRUE(failed_with(port, Errc::ports_exhausted));
            return held;
        }
        held.emplace_back(std::move(socket), std::move(*port));
    }
}

std::set<std::uint16_t> numbers_of(const Held& held) {
    std::set<std::uint16_t> numbers;
    for (const auto& [socket, port] : held) numbers.insert(port.number());
    return numbers;
}

TEST(Exhaustion, EveryPortIsGivenOnceBeforeTheTableSaysNo) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            for (const Family family : kFamilies) {
                PortTable table = new_table(protocol, kNoRest);
                const Held held = bind_all(table, Address::any(family));
                EXPECT_EQ(held.size(), kSmall.size());
                EXPECT_EQ(numbers_of(held).size(), kSmall.size());
            }
        }
    });
}

TEST(Exhaustion, MessageSaysHowManyPortsOfWhichRangeAndWhoHoldsThem) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        const Held held = bind_all(table, Address::any(Family::ipv4));
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        const auto port = table.bind(socket, Address::any(Family::ipv4));
        ASSERT_TRUE(failed_with(port, Errc::ports_exhausted));
        const Error::Exhaustion figures = port.error().exhaustion();
        EXPECT_EQ(figures.taken_count, 16U);
        EXPECT_EQ(figures.first, 40000);
        EXPECT_EQ(figures.last, 40015);
        EXPECT_EQ(figures.top_holder_pid, static_cast<std::uint32_t>(::getpid()));
        EXPECT_EQ(figures.top_holder_count, 16U);
        const std::string message = port.error().message();
        EXPECT_THAT(message, HasSubstr("bind udp 0.0.0.0"));
        EXPECT_THAT(message, HasSubstr("40000-40015"));
        EXPECT_THAT(message, HasSubstr("16"));
    });
}

TEST(Exhaustion, OnePortInTheRangeIsGivenAgainAndAgain) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol);
            for (unsigned i = 0; i < 20; ++i) {
                const Socket socket = new_socket(protocol, Family::ipv4);
                const auto port = table.bind(socket, Address::any(Family::ipv4));
                ASSERT_TRUE(succeeded(port));
                EXPECT_EQ(port->number(), 40000);
            }
            EXPECT_GT(table.statistics().early_rest_count, 0U);
        }
    });
}

TEST(Exhaustion, RestingPortsAreUsedBeforeTheTableSaysNo) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, {.rest_period = std::chrono::hours(1)});
        for (unsigned round = 0; round < 3; ++round) {
            EXPECT_EQ(bind_all(table, Address::any(Family::ipv4)).size(), kSmall.size());
        }
        EXPECT_EQ(table.statistics().resting_count, kSmall.size());
    });
}

TEST(Exhaustion, EveryPortReservedIsExhausted) {
    in_network_namespace({.range = kSmall, .reserved = "40000-40015"}, [] {
        PortTable table = new_table(Protocol::udp);
        EXPECT_EQ(table.statistics().allowed_count, 0U);
        EXPECT_TRUE(failed_with(table.take(), Errc::ports_exhausted));
        EXPECT_TRUE(failed_with(table.lease(), Errc::ports_exhausted));
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        EXPECT_TRUE(
            failed_with(table.bind(socket, Address::any(Family::ipv4)), Errc::ports_exhausted));
    });
}

TEST(Exhaustion, ReservedPortsAreNeverGiven) {
    in_network_namespace({.range = kSmall, .reserved = "40001,40008-40015"}, [] {
        PortTable table = new_table(Protocol::udp);
        const Held held = bind_all(table, Address::any(Family::ipv4));
        EXPECT_EQ(numbers_of(held),
                  (std::set<std::uint16_t>{40000, 40002, 40003, 40004, 40005, 40006, 40007}));
    });
}

TEST(Exhaustion, ReservedPortsAreGivenWhereTheTableIsToldTo) {
    in_network_namespace({.range = kSmall, .reserved = "40001,40008-40015"}, [] {
        PortTable table = new_table(Protocol::udp, {.honour_reserved = false});
        EXPECT_EQ(bind_all(table, Address::any(Family::ipv4)).size(), kSmall.size());
    });
}

TEST(Exhaustion, PortsOfStrangersAreLearnedAtTheStart) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            const auto theirs = strangers(protocol, Address::any(Family::ipv4), {40000, 40013});
            PortTable table = new_table(protocol);
            const Held held = bind_all(table, Address::any(Family::ipv4));
            EXPECT_EQ(numbers_of(held), (std::set<std::uint16_t>{40014, 40015}));
            EXPECT_EQ(table.statistics().refused_count, 0U);
        }
    });
}

TEST(Exhaustion, PortsOfStrangersThatTheTableDoesNotKnowAreNeverGiven) {
    in_network_namespace([] {
        for (const Protocol protocol : kProtocols) {
            TableOptions blind = kNoRest;
            blind.reconcile_at_start = false;
            PortTable table = new_table(protocol, blind);
            const auto theirs = strangers(protocol, Address::any(Family::ipv4), {32768, 33789});
            const Held held = bind_all(table, Address::any(Family::ipv4));
            EXPECT_EQ(numbers_of(held), (std::set<std::uint16_t>{33790, 33791}));
        }
    });
}

// The kernel refuses them one by one; an answer may not depend on luck.
TEST(Exhaustion, LastFreePortIsFoundAmongAThousandUnknownStrangers) {
    in_network_namespace([] {
        for (unsigned i = 0; i < 5; ++i) {
            PortTable table = new_table(Protocol::udp, kNoRest);
            const auto theirs =
                strangers(Protocol::udp, Address::any(Family::ipv4), {32768, 33790});
            const Socket socket = new_socket(Protocol::udp, Family::ipv4);
            const auto port = table.bind(socket, Address::any(Family::ipv4));
            ASSERT_TRUE(succeeded(port));
            EXPECT_EQ(port->number(), 33791);
        }
    });
}

TEST(Exhaustion, AllPortsWithStrangersIsExhausted) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol);
            const auto theirs = strangers(protocol, Address::any(Family::ipv6), kSmall);
            for (const Family family : kFamilies) {
                const Socket socket = new_socket(protocol, family);
                const auto port = table.bind(socket, Address::any(family));
                ASSERT_TRUE(failed_with(port, Errc::ports_exhausted));
                EXPECT_EQ(port.error().exhaustion().top_holder_pid, 0U);
            }
        }
    });
}

// The reconcile, once a second, would find the port too: one of a few must be found long before. (A
// machine may stall for the rest of a second, but hardly each time.)
TEST(Exhaustion, TableRecoversWithinTheRecheckIntervalAfterAStrangerCloses) {
    constexpr int kTries = 5;
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            auto theirs = strangers(protocol, Address::any(Family::ipv4), kSmall);
            PortTable table = new_table(protocol, {.recheck_interval = milliseconds(50)});
            const Address local = Address::any(Family::ipv4);
            Held ours;
            bool was_quick = false;
            for (int number = 0; number < kTries && !was_quick; ++number) {
                Socket socket = new_socket(protocol, Family::ipv4);
                ASSERT_TRUE(failed_with(table.bind(socket, local), Errc::ports_exhausted));
                theirs[static_cast<std::size_t>(number)].reset();
                Result<Port> port = table.bind(socket, local);
                const auto start = std::chrono::steady_clock::now();
                EXPECT_TRUE(poll_until([&] {
                    if (!port) port = table.bind(socket, local);
                    return port.has_value();
                }));
                was_quick = std::chrono::steady_clock::now() - start < milliseconds(900);
                ASSERT_TRUE(succeeded(port));
                EXPECT_EQ(port->number(), 40000 + number);
                ours.emplace_back(std::move(socket), std::move(*port));
            }
            EXPECT_TRUE(was_quick) << "only the reconcile helped, not the recheck";
        }
    });
}

TEST(Exhaustion, TakeRecoversAfterAStrangerCloses) {
    in_network_namespace({.range = kSmall}, [] {
        auto theirs = strangers(Protocol::udp, Address::any(Family::ipv4), kSmall);
        PortTable table = new_table(Protocol::udp);
        ASSERT_TRUE(failed_with(table.take(), Errc::ports_exhausted));
        theirs[3].reset();
        EXPECT_TRUE(poll_until([&] {
            const auto port = table.take();
            return port && port->number() == 40003;
        }));
    });
}

TEST(Exhaustion, FailingBindsDoNotAskTheKernelEveryTime) {
    in_network_namespace({.range = kSmall}, [] {
        const auto theirs = strangers(Protocol::udp, Address::any(Family::ipv4), kSmall);
        PortTable table = new_table(Protocol::udp, {.recheck_interval = std::chrono::hours(1)});
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        for (unsigned i = 0; i < 200; ++i) {
            ASSERT_TRUE(
                failed_with(table.bind(socket, Address::any(Family::ipv4)), Errc::ports_exhausted));
        }
        EXPECT_LE(table.statistics().reconcile_count, 12U);
        EXPECT_EQ(table.statistics().exhausted_count, 200U);
    });
}

// The process that is killed cannot give its ports back.
TEST(Exhaustion, PortsOfAKilledProcessComeBackByThemselves) {
    in_network_namespace({.range = kSmall}, [] {
        auto table = PortTable::create_shared(Protocol::udp, kNoRest);
        ASSERT_TRUE(succeeded(table));
        const pid_t child = ::fork();
        if (child == 0) {
            const Held held = bind_all(*table, Address::any(Family::ipv4));
            ::kill(::getpid(), SIGKILL);
        }
        ASSERT_EQ(::waitpid(child, nullptr, 0), child);
        EXPECT_EQ(table->statistics().free_count, 0U);
        Held held;
        EXPECT_TRUE(poll_until([&] {
            std::ranges::move(bind_all(*table, Address::any(Family::ipv4)),
                              std::back_inserter(held));
            return held.size() == kSmall.size();
        }));
        EXPECT_EQ(numbers_of(held).size(), kSmall.size());
    });
}

TEST(Exhaustion, LastStepNeverTakesAPortThatBerthHasPromised) {
    in_network_namespace({.range = {40000, 40003}}, [] {
        PortTable table = new_table(
            Protocol::udp, {.rest_period = milliseconds(0), .recheck_interval = milliseconds(0)});
        const auto lease = table.lease({.count = 2});
        const auto taken = table.take();
        ASSERT_TRUE(succeeded(lease));
        ASSERT_TRUE(succeeded(taken));
        EXPECT_EQ(bind_all(table, Address::any(Family::ipv4)).size(), 1U);
        EXPECT_EQ(bind_all(table, address("127.0.0.1")).size(), 1U);
    });
}

TEST(Exhaustion, DescriptorsExhaustedIsNoReasonToLosePorts) {
    in_network_namespace({.range = kSmall, .descriptor_limit = 40}, [] {
        const auto theirs = strangers(Protocol::udp, Address::any(Family::ipv4), kSmall);
        PortTable table = new_table(Protocol::udp, {.recheck_interval = milliseconds(0)});
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        std::vector<Socket> more;
        Result<Socket> next = Socket::open(Protocol::udp, Family::ipv4);
        for (; next; next = Socket::open(Protocol::udp, Family::ipv4)) {
            more.push_back(std::move(*next));
        }
        EXPECT_TRUE(failed_with(next, Errc::descriptors_exhausted));
        EXPECT_TRUE(
            failed_with(table.bind(socket, Address::any(Family::ipv4)), Errc::ports_exhausted));
        EXPECT_TRUE(failed_with(table.reconcile(), Errc::descriptors_exhausted));
        more.clear();
        EXPECT_TRUE(succeeded(table.reconcile()));
        EXPECT_EQ(table.statistics().free_count, 0U);
    });
}

// A stranger that takes and closes random ports all the time.
void grab_ports(PortRange range) {
    ::alarm(60);  // in case nobody kills it
    std::vector<Descriptor> held(range.size() / 4);
    for (unsigned i = 0;; i = i * 1'103'515'245 + 12'345) {
        const auto port = static_cast<std::uint16_t>(range.first + (i >> 8) % range.size());
        Descriptor& slot = held[(i >> 20) % held.size()];
        slot.reset();
        slot = stranger(Protocol::udp, Address::any(Family::ipv4, port));
    }
}

TEST(Exhaustion, ForeignProcessThatGrabsPortsCausesNoDuplicateAndNoLoss) {
    in_network_namespace({.range = {40000, 40063}}, [] {
        PortTable table = new_table(
            Protocol::udp, {.rest_period = milliseconds(5), .recheck_interval = milliseconds(1)});
        const pid_t grabber = ::fork();
        if (grabber == 0) {
            grab_ports({40000, 40063});
        }
        const auto deadline = std::chrono::steady_clock::now() + milliseconds(700);
        Held held;
        unsigned bound_count = 0;
        for (unsigned i = 0; std::chrono::steady_clock::now() < deadline; ++i) {
            Socket socket = new_socket(Protocol::udp, Family::ipv4);
            if (auto port = table.bind(socket, Address::any(Family::ipv4))) {
                ASSERT_EQ(test::local_of(socket.fd()).port(), port->number());
                held.emplace_back(std::move(socket), std::move(*port));
                ++bound_count;
            }
            if (held.size() > 40) held.clear();
            if (i % 64 == 0) {
                ASSERT_TRUE(succeeded(table.reconcile()));
            }
        }
        ::kill(grabber, SIGKILL);
        ::waitpid(grabber, nullptr, 0);
        held.clear();
        EXPECT_GT(bound_count, 100U);
        ASSERT_TRUE(succeeded(table.reconcile()));
        const TableStatistics after = table.statistics();
        EXPECT_EQ(after.free_count + after.resting_count, 64U);
        EXPECT_EQ(bind_all(table, Address::any(Family::ipv4)).size(), 64U);
    });
}

}  // namespace
}  // namespace berth
