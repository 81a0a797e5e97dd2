// SPDX-License-Identifier: Apache-2.0
// The table is held against the kernel's own list, in namespaces with sockets of strangers.
#include <berth/ports.h>

#include "src/base/system_calls.h"
#include "tests/support/fault_injection.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>

#include <cerrno>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace berth {
namespace {

using std::chrono::milliseconds;
using test::address;
using test::Call;
using test::failed_with;
using test::FaultPlan;
using test::in_network_namespace;
using test::kProtocols;
using test::NetlinkReply;
using test::new_socket;
using test::new_table;
using test::stranger;
using test::succeeded;
using test::Target;
using testing::HasSubstr;

constexpr PortRange kSmall = {40000, 40015};
const TableOptions kNoRest = {.rest_period = milliseconds(0)};

ReconcileReport reconcile(PortTable& table) {
    const auto report = table.reconcile();
    EXPECT_TRUE(succeeded(report));
    return report.value_or(ReconcileReport{});
}

bool lists_bound_only(PortTable& table) { return reconcile(table).saw_bound_only; }

TEST(Reconcile, LearnsAndForgetsThePortsOfStrangers) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol, kNoRest);
            if (!lists_bound_only(table)) {
                GTEST_SKIP() << "sockets that are only bound are listed from Linux 6.8 on";
            }
            Descriptor v4 = stranger(protocol, Address::any(Family::ipv4, 40001));
            Descriptor dual = stranger(protocol, Address::any(Family::ipv6, 40002));
            Descriptor specific = stranger(protocol, address("127.0.0.1:40003"));
            const ReconcileReport learned = reconcile(table);
            EXPECT_EQ(learned.sockets_seen, 3U);
            EXPECT_GE(learned.ports_learned, 3U);
            EXPECT_FALSE(learned.was_interrupted);
            std::set<std::uint16_t> numbers;
            std::vector<Port> held;
            while (auto port = table.take()) {
                numbers.insert(port->number());
                held.push_back(std::move(*port));
            }
            EXPECT_EQ(numbers.size(), 13U);
            EXPECT_FALSE(numbers.contains(40001) || numbers.contains(40002) ||
                         numbers.contains(40003));
            held.clear();
            v4.reset();
            dual.reset();
            specific.reset();
            EXPECT_EQ(reconcile(table).ports_freed, learned.ports_learned);
            EXPECT_EQ(table.statistics().free_count, kSmall.size());
        }
    });
}

TEST(Reconcile, V6OnlyStrangerLeavesV4Free) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        const Descriptor theirs = stranger(Protocol::udp, Address::any(Family::ipv6, 40000), true);
        PortTable table = new_table(Protocol::udp, kNoRest);
        EXPECT_FALSE(table.take(TakeFamily::ipv6));
        EXPECT_FALSE(table.take(TakeFamily::both));
        EXPECT_TRUE(succeeded(table.take(TakeFamily::ipv4)));
    });
}

TEST(Reconcile, KeepsWhatBerthItselfGaveOut) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol, kNoRest);
            const auto taken = table.take();
            const auto lease = table.lease({.count = 2});
            const Socket bound = new_socket(protocol, Family::ipv4);
            const auto bound_port = table.bind(bound, Address::any(Family::ipv4));
            const Socket specific = new_socket(protocol, Family::ipv4);
            const auto specific_port = table.bind(specific, address("127.0.0.2"));
            ASSERT_TRUE(taken && lease && bound_port && specific_port);
            const std::uint32_t free_count = table.statistics().free_count;
            for (unsigned i = 0; i < 3; ++i) {
                const ReconcileReport report = reconcile(table);
                EXPECT_EQ(report.sockets_seen, 2U);
                EXPECT_EQ(report.ports_learned, 0U);
                EXPECT_EQ(report.ports_reclaimed, 0U);
            }
            EXPECT_EQ(table.statistics().free_count, free_count);
        }
    });
}

// A connected UDP socket is shown with the local address that connecting gave it.
TEST(Reconcile, KnowsItsOwnConnectedSockets) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            const Descriptor server = test::listener(address("127.0.0.1:20000"));
            PortTable table = new_table(protocol, kNoRest);
            const Socket socket = new_socket(protocol, Family::ipv4);
            const auto port = table.connect(socket, address("127.0.0.1:20000"));
            ASSERT_TRUE(succeeded(port));
            const ReconcileReport report = reconcile(table);
            EXPECT_EQ(report.ports_learned, 0U);
            EXPECT_EQ(report.ports_reclaimed, 0U);
        }
    });
}

TEST(Reconcile, FindsSocketsThatWereClosedWithoutTellingTheTable) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol, kNoRest);
            if (!lists_bound_only(table)) {
                GTEST_SKIP() << "sockets that are only bound are listed from Linux 6.8 on";
            }
            Socket socket = new_socket(protocol, Family::ipv4);
            auto port = table.bind(socket, Address::any(Family::ipv4));
            ASSERT_TRUE(succeeded(port));
            port->detach();
            EXPECT_EQ(reconcile(table).ports_reclaimed, 0U);
            socket.close();
            // One list may miss a socket that lives; two, a second apart, do not.
            EXPECT_EQ(reconcile(table).ports_reclaimed, 0U);
            EXPECT_TRUE(test::poll_until([&] { return reconcile(table).ports_reclaimed == 1; }));
            EXPECT_EQ(table.statistics().free_count, kSmall.size());
        }
    });
}

TEST(Reconcile, PortThatWasFoundLostMayStillBeReleased) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        Socket socket = new_socket(Protocol::udp, Family::ipv4);
        auto port = table.bind(socket, Address::any(Family::ipv4));
        ASSERT_TRUE(succeeded(port));
        socket.close();
        EXPECT_TRUE(test::poll_until([&] { return reconcile(table).ports_reclaimed == 1; }));
        const auto next = table.take();
        ASSERT_TRUE(succeeded(next));
        port->release();
        EXPECT_FALSE(table.take()) << "the late release gave another's port back";
    });
}

TEST(Reconcile, RangeAndReservedPortsThatChangeAreSeen) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        test::write_setting("ipv4/ip_local_port_range", "50000 50003");
        test::write_setting("ipv4/ip_local_reserved_ports", "50001");
        EXPECT_EQ(table.range(), kSmall);
        reconcile(table);
        EXPECT_EQ(table.range(), (PortRange{50000, 50003}));
        EXPECT_EQ(table.statistics().allowed_count, 3U);
        std::set<std::uint16_t> numbers;
        std::vector<Port> held;
        while (auto port = table.take()) {
            numbers.insert(port->number());
            held.push_back(std::move(*port));
        }
        EXPECT_EQ(numbers, (std::set<std::uint16_t>{50000, 50002, 50003}));
    });
}

TEST(Reconcile, PortsHeldWhileTheRangeChangedAreGivenBackToIt) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        auto early = table.take();
        auto late = table.take();
        ASSERT_TRUE(early && late);
        test::write_setting("ipv4/ip_local_port_range", "50000 50003");
        reconcile(table);
        early->release();
        EXPECT_EQ(table.statistics().free_count, 4U);
        test::write_setting("ipv4/ip_local_port_range", "40000 40015");
        reconcile(table);
        EXPECT_EQ(table.statistics().free_count, 15U);
        late->release();
        EXPECT_EQ(table.statistics().free_count, 16U);
    });
}

TEST(Reconcile, ExplicitRangeStays) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, {.range = PortRange{40004, 40007}});
        test::write_setting("ipv4/ip_local_port_range", "50000 50003");
        reconcile(table);
        EXPECT_EQ(table.range(), (PortRange{40004, 40007}));
    });
}

// The list is not consistent: it proves what is held, but nothing is freed from it.
TEST(Reconcile, InterruptedListLearnsButFreesNothing) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        Descriptor gone = stranger(Protocol::udp, Address::any(Family::ipv4, 40001));
        reconcile(table);
        gone.reset();
        const Descriptor fresh = stranger(Protocol::udp, Address::any(Family::ipv4, 40002));
        {
            FaultPlan faults;
            faults.answer_netlink({NetlinkReply::kernel_with_flags(NLM_F_DUMP_INTR)},
                                  test::ScriptEnd::repeat_last);
            const ReconcileReport report = reconcile(table);
            EXPECT_TRUE(report.was_interrupted);
            EXPECT_EQ(report.ports_freed, 0U);
            EXPECT_EQ(report.ports_learned, 1U);
        }
        EXPECT_EQ(reconcile(table).ports_freed, 1U);
    });
}

struct Failure {
    const char* name;
    Errc code;
    void (*arrange)(FaultPlan& faults);
};

const Failure kFailures[] = {
    {"refused", Errc::permission_denied,
     [](FaultPlan& faults) {
         faults.fail(Call::socket, EACCES, FaultPlan::kAlways, Target::netlink);
     }},
    {"no descriptor", Errc::descriptors_exhausted,
     [](FaultPlan& faults) {
         faults.fail(Call::socket, EMFILE, FaultPlan::kAlways, Target::netlink);
     }},
    {"no memory", Errc::out_of_memory,
     [](FaultPlan& faults) {
         faults.answer_netlink({NetlinkReply::failure(ENOBUFS)}, test::ScriptEnd::repeat_last);
     }},
    {"truncated", Errc::system,
     [](FaultPlan& faults) {
         faults.answer_netlink({NetlinkReply::truncated({}, 1 << 20)},
                               test::ScriptEnd::repeat_last);
     }},
    {"cut short", Errc::system,
     [](FaultPlan& faults) {
         faults.answer_netlink({NetlinkReply::data(std::vector<std::byte>(7))},
                               test::ScriptEnd::repeat_last);
     }},
};

TEST(Reconcile, FailingListChangesNothingAndBindingGoesOn) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Failure& failure : kFailures) {
            PortTable table = new_table(Protocol::udp, kNoRest);
            const Descriptor theirs = stranger(Protocol::udp, Address::any(Family::ipv4, 40003));
            reconcile(table);
            FaultPlan faults;
            failure.arrange(faults);
            const auto report = table.reconcile();
            ASSERT_TRUE(failed_with(report, failure.code)) << failure.name;
            EXPECT_THAT(report.error().message(), HasSubstr("read kernel sockets")) << failure.name;
            EXPECT_EQ(table.statistics().free_count, 15U) << failure.name;
            std::vector<std::pair<Socket, Port>> held;
            for (unsigned i = 0; i < 15; ++i) {
                Socket socket = new_socket(Protocol::udp, Family::ipv4);
                auto port = table.bind(socket, Address::any(Family::ipv4));
                ASSERT_TRUE(succeeded(port)) << failure.name;
                held.emplace_back(std::move(socket), std::move(*port));
            }
            const Socket socket = new_socket(Protocol::udp, Family::ipv4);
            EXPECT_TRUE(
                failed_with(table.bind(socket, Address::any(Family::ipv4)), Errc::ports_exhausted))
                << failure.name;
            held.clear();
            EXPECT_EQ(table.statistics().free_count, 15U) << failure.name;
        }
    });
}

TEST(Reconcile, TableThatCannotReadTheKernelsSocketsSaysSo) {
    in_network_namespace({.range = kSmall}, [] {
        FaultPlan faults;
        faults.fail(Call::socket, EACCES, FaultPlan::kAlways, Target::netlink);
        const auto table = PortTable::create(Protocol::udp);
        ASSERT_TRUE(failed_with(table, Errc::permission_denied));
        EXPECT_THAT(table.error().message(), HasSubstr("AF_NETLINK"));
        EXPECT_TRUE(succeeded(PortTable::create(Protocol::udp, {.reconcile_at_start = false})));
    });
}

}  // namespace
}  // namespace berth
