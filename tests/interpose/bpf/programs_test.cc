// SPDX-License-Identifier: Apache-2.0
// The programs in the kernel, met as an unmodified program meets them.
#include "tests/interpose/bpf/covered.h"
#include "tests/support/send_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51
#endif

namespace berth::test {
namespace {

using internal::bpf::TableMap;

std::uint16_t port_of(int fd) { return local_of(fd).port(); }

void set_option(const Descriptor& socket, int level, int name, int value) {
    ASSERT_EQ(::setsockopt(socket.get(), level, name, &value, sizeof(value)), 0);
}

Descriptor plain_socket(int type) { return Descriptor(::socket(AF_INET, type | SOCK_CLOEXEC, 0)); }

// Free, or at rest for a moment.
bool table_is_all_free(Covered& covered, Protocol protocol) {
    const TableMap::Occupancy sum = covered.table(protocol).occupancy();
    return sum.free + sum.resting == sum.allowed;
}

TEST(BpfBind, GivesEveryPortOnceAndThenRefuses) {
    for (const Protocol protocol : kProtocols) {
        for (const Family family : kFamilies) {
            in_covered_namespace([&](Covered& covered) {
                std::set<std::uint16_t> ports;
                std::vector<Bound> all;
                for (unsigned i = 0; i < kSmallRange.size(); ++i) {
                    all.push_back(bind_zero(protocol, family));
                    ASSERT_EQ(all.back().error, 0) << i;
                    EXPECT_TRUE(kSmallRange.contains(all.back().port));
                    ports.insert(all.back().port);
                }
                EXPECT_EQ(ports.size(), kSmallRange.size());
                EXPECT_EQ(bind_zero(protocol, family).error, EADDRINUSE);
                EXPECT_EQ(covered.cover().counters(protocol)->given, kSmallRange.size());
                EXPECT_TRUE(covered.is_true(protocol));
                all.pop_back();
                EXPECT_EQ(bind_zero(protocol, family).error, 0);
            });
        }
    }
}

// Without bpf_set_retval() a program that returns 0 means EPERM.
TEST(BpfBind, RefusalIsTheErrorThatProgramsExpect) {
    in_covered_namespace([](Covered& covered) {
        const std::vector<Bound> all = bind_all(kUdp);
        EXPECT_EQ(all.size(), kSmallRange.size());
        for (int i = 0; i < 100; ++i) {
            EXPECT_EQ(bind_zero(kUdp).error, EADDRINUSE);
            EXPECT_EQ(connect_new(kUdp, at(9)).error, EAGAIN);
        }
        // The kernel has been asked a few times, not every time.
        const berth_counters counters = covered.cover().counters(kUdp).value();
        EXPECT_GT(counters.refused, 100U);
        EXPECT_GT(counters.left_to_kernel, 0U);
    });
}

TEST(BpfBind, LeavesReservedAndExcludedPortsAlone) {
    in_covered_namespace({.range = kSmallRange, .reserved = "40000-40039"},
                         {.excluded = {{40050, 40059}}}, [](Covered&) {
                             // The last step, the kernel's own choice, knows of no exclusion.
                             for (int i = 0; i < 50; ++i) {
                                 const Bound bound = bind_zero(kUdp);
                                 ASSERT_EQ(bound.error, 0);
                                 EXPECT_FALSE(PortRange(40000, 40039).contains(bound.port));
                                 EXPECT_FALSE(PortRange(40050, 40059).contains(bound.port));
                             }
                         });
}

// Trap 1: sock_release runs before the kernel lets go of the port.
TEST(BpfRelease, ReleasedPortRestsBeforeReuse) {
    in_covered_namespace({.range = kSmallRange}, {.rests = {.brief_ms = 60'000}},
                         [](Covered& covered) {
                             Bound bound = bind_zero(kUdp);
                             const TableMap table = covered.table(kUdp);
                             EXPECT_EQ(covered.owner_kind(kUdp, bound.port), BERTH_HELD);
                             bound.socket.reset();
                             EXPECT_EQ(covered.owner_kind(kUdp, bound.port), BERTH_NOBODY);
                             EXPECT_FALSE(table.is_free(bound.port));
                             EXPECT_TRUE(table.is_resting(bound.port, false));
                         });
}

// Trap 3: the hook does not show the port; it is read from the kernel's own socket.
TEST(BpfRelease, PortIsKnownWhateverTheSocketIs) {
    for (const Protocol protocol : kProtocols) {
        for (const Family family : kFamilies) {
            in_covered_namespace([&](Covered& covered) {
                std::array<Bound, 2> bound{bind_zero(protocol, family),
                                           bind_to(protocol, Address::any(family, 39'000))};
                for (Bound& each : bound) {
                    ASSERT_EQ(covered.owner_kind(protocol, each.port), BERTH_HELD);
                    each.socket.reset();
                    EXPECT_EQ(covered.owner_kind(protocol, each.port), BERTH_NOBODY);
                }
            });
        }
    }
}

TEST(BpfRelease, RestEndsByItself) {
    in_covered_namespace({.range = kSmallRange}, {.rests = {.brief_ms = 20}}, [](Covered& covered) {
        Bound bound = bind_zero(kUdp);
        bound.socket.reset();
        const TableMap table = covered.table(kUdp);
        EXPECT_TRUE(poll_until([&] {
            bind_zero(kUdp);
            return table.is_free(bound.port);
        }));
    });
}

TEST(BpfRelease, RestingPortsAreUsedBeforeARefusal) {
    in_covered_namespace({.range = kSmallRange}, {.rests = {.brief_ms = 60'000}},
                         [](Covered& covered) {
                             std::vector<Bound> all = bind_all(kUdp);
                             ASSERT_EQ(all.size(), kSmallRange.size());
                             all.clear();
                             all = bind_all(kUdp);
                             EXPECT_EQ(all.size(), kSmallRange.size());
                             EXPECT_GT(covered.cover().counters(kUdp)->early_rests, 0U);
                         });
}

// Trap 2: no hook tells of a bind that fails after its port was chosen.
TEST(BpfPending, PortsOfFailedBindsComeBack) {
    in_covered_namespace([](Covered& covered) {
        const Address nowhere = Address::parse("192.0.2.1").value();
        for (int i = 0; i < 300; ++i) {
            const int error = bind_zero(kUdp, nowhere).error;
            EXPECT_TRUE(error == EADDRNOTAVAIL || error == EADDRINUSE) << std::strerror(error);
        }
        const TableMap table = covered.table(kUdp);
        EXPECT_EQ(table.occupancy().pending, kSmallRange.size());
        // Others are served meanwhile: the kernel is asked as long as it finds some.
        std::vector<Bound> all;
        EXPECT_TRUE(poll_until([&] {
            all.push_back(bind_zero(kUdp));
            return table.occupancy().pending == 0;
        }));
        EXPECT_TRUE(covered.is_true(kUdp));
    });
}

TEST(BpfPending, ProgramsSweepWhatIsOverdueWhenPortsRunOut) {
    in_covered_namespace([](Covered& covered) {
        const Address nowhere = Address::parse("192.0.2.1").value();
        for (unsigned i = 0; i < kSmallRange.size(); ++i) bind_zero(kUdp, nowhere);
        const TableMap table = covered.table(kUdp);
        const std::uint64_t overdue_ms = internal::bpf::monotonic_ms() + BERTH_LEASE_MS;
        EXPECT_TRUE(poll_until([&] { return internal::bpf::monotonic_ms() > overdue_ms; }));
        EXPECT_EQ(table.occupancy().pending, kSmallRange.size());
        EXPECT_EQ(bind_zero(kUdp).error, 0);
        EXPECT_EQ(covered.cover().counters(kUdp)->swept, kSmallRange.size());
        EXPECT_EQ(table.occupancy().pending, 0U);
    });
}

TEST(BpfPending, LookGivesPortsOfFailedBindsBack) {
    in_covered_namespace([](Covered& covered) {
        const Address nowhere = Address::parse("192.0.2.1").value();
        for (int i = 0; i < 50; ++i) bind_zero(kTcp, nowhere);
        const TableMap table = covered.table(kTcp);
        EXPECT_EQ(table.occupancy().pending, 50U);
        EXPECT_TRUE(poll_until([&] {
            covered.look();
            return table.occupancy().pending == 0;
        }));
        EXPECT_TRUE(covered.is_true(kTcp));
    });
}

// Trap 13, and trap 2: with half of the ports unknown, every second bind(0) would fail.
TEST(BpfSync, SocketsOlderThanTheAttachmentAreKnown) {
    for (const Protocol protocol : kProtocols) {
        in_network_namespace({.range = kSmallRange}, [&] {
            const std::vector<Descriptor> older =
                strangers(protocol, Address::any(Family::ipv4), {40000, 40049});
            Result<internal::bpf::Cover> cover = internal::bpf::Cover::create({});
            if (!cover) GTEST_SKIP() << cover.error().message();
            ASSERT_TRUE(succeeded(cover->enter()));
            std::vector<Bound> all;
            for (int i = 0; i < 50; ++i) {
                all.push_back(bind_zero(protocol));
                EXPECT_EQ(all.back().error, 0);
            }
            EXPECT_TRUE(Covered(*cover).is_true(protocol));
        });
    }
}

TEST(BpfSync, SocketsOutsideTheCgroupAreFoundByTheNextLook) {
    in_network_namespace({.range = kSmallRange}, [] {
        Result<internal::bpf::Cover> cover = internal::bpf::Cover::create({});
        if (!cover) GTEST_SKIP() << cover.error().message();
        Covered covered(*cover);
        Descriptor outside = stranger(kUdp, Address::any(Family::ipv4, 40007));
        ASSERT_TRUE(succeeded(cover->enter()));
        EXPECT_EQ(covered.owner_kind(kUdp, 40007), BERTH_NOBODY);
        EXPECT_EQ(covered.look().sync.found, 1U);
        EXPECT_EQ(covered.owner_kind(kUdp, 40007), BERTH_KERNEL);
        outside.reset();
        covered.look_thoroughly();
        EXPECT_EQ(covered.owner_kind(kUdp, 40007), BERTH_NOBODY);
        EXPECT_TRUE(covered.is_true(kUdp));
    });
}

// Trap 4.
TEST(BpfAutobind, SendtoIsNotedAtOnce) {
    in_covered_namespace([](Covered& covered) {
        Descriptor socket = plain_socket(SOCK_DGRAM);
        const Address to = at(9);
        ASSERT_EQ(::sendto(socket.get(), "x", 1, 0, to.data(), to.size()), 1);
        const std::uint16_t port = port_of(socket.get());
        EXPECT_EQ(covered.owner_kind(kUdp, port), BERTH_HELD);
        EXPECT_FALSE(covered.table(kUdp).is_free(port));
        socket.reset();
        EXPECT_EQ(covered.owner_kind(kUdp, port), BERTH_NOBODY);
        EXPECT_TRUE(covered.table(kUdp).is_resting(port, false));
    });
}

TEST(BpfAutobind, ListenIsFoundByTheNextLook) {
    in_covered_namespace([](Covered& covered) {
        const Descriptor socket = plain_socket(SOCK_STREAM);
        ASSERT_EQ(::listen(socket.get(), 5), 0);
        EXPECT_EQ(covered.look().sync.found, 1U);
        EXPECT_EQ(covered.owner_kind(kTcp, port_of(socket.get())), BERTH_KERNEL);
        EXPECT_TRUE(covered.is_true(kTcp));
    });
}

// Trap 5.
TEST(BpfConnect, UdpSocketKeepsItsPortWhenItIsDisconnected) {
    in_covered_namespace([](Covered& covered) {
        Bound bound = connect_new(kUdp, at(9));
        ASSERT_EQ(bound.error, 0);
        EXPECT_EQ(covered.owner_kind(kUdp, bound.port), BERTH_HELD);
        sockaddr nobody{};
        nobody.sa_family = AF_UNSPEC;
        ASSERT_EQ(::connect(bound.socket.get(), &nobody, sizeof(nobody)), 0);
        EXPECT_EQ(port_of(bound.socket.get()), bound.port);
        EXPECT_EQ(covered.owner_kind(kUdp, bound.port), BERTH_HELD);
        bound.socket.reset();
        EXPECT_TRUE(covered.is_true(kUdp));
    });
}

// Trap 6.
TEST(BpfConnect, PortsAreSharedBetweenDestinations) {
    in_covered_namespace({.range = kSmallRange, .descriptor_limit = 4096}, {},
                         [](Covered& covered) {
                             constexpr std::uint16_t kFirstServer = 5000;
                             constexpr unsigned kServers = 3;
                             std::vector<Descriptor> servers;
                             std::vector<Bound> all;
                             for (unsigned n = 0; n < kServers; ++n) {
                                 const auto port = static_cast<std::uint16_t>(kFirstServer + n);
                                 servers.push_back(server(port));
                                 std::set<std::uint16_t> ports;
                                 for (unsigned i = 0; i < kSmallRange.size() * 9 / 10; ++i) {
                                     all.push_back(connect_new(kTcp, at(port)));
                                     ASSERT_EQ(all.back().error, 0) << n << " " << i;
                                     ports.insert(all.back().port);
                                 }
                                 EXPECT_EQ(ports.size(), kSmallRange.size() * 9 / 10);
                             }
                             EXPECT_GT(covered.cover().counters(kTcp)->shared, 100U);
                             EXPECT_TRUE(covered.is_true(kTcp));
                             covered.look_thoroughly();
                             EXPECT_TRUE(covered.is_true(kTcp));
                             servers.clear();
                             all.clear();
                             covered.look_thoroughly();
                             EXPECT_TRUE(covered.is_true(kTcp));
                         });
}

TEST(BpfConnect, FillsTheRangeTowardsOneDestination) {
    in_covered_namespace([](Covered& covered) {
        const Descriptor destination = server(5000);
        std::vector<Bound> all;
        for (unsigned i = 0; i < kSmallRange.size(); ++i) {
            all.push_back(connect_new(kTcp, at(5000)));
            ASSERT_EQ(all.back().error, 0) << i;
        }
        EXPECT_EQ(connect_new(kTcp, at(5000)).error, EADDRNOTAVAIL);
        EXPECT_TRUE(covered.is_true(kTcp));
    });
}

TEST(BpfConnect, WorksOverIpv6AndWithAnAddressOfItsOwn) {
    in_covered_namespace([](Covered& covered) {
        const Descriptor v6 = listener(Address::loopback(Family::ipv6, 5006));
        const Bound bound = connect_new(kTcp, Address::loopback(Family::ipv6, 5006));
        EXPECT_EQ(bound.error, 0);
        EXPECT_EQ(covered.owner_kind(kTcp, bound.port), BERTH_CONNECTED);

        const Descriptor v4 = server(5000);
        const Descriptor socket = plain_socket(SOCK_STREAM);
        set_option(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        const Address local = Address::parse("127.0.0.5").value();
        ASSERT_EQ(::bind(socket.get(), local.data(), local.size()), 0);
        const Address to = at(5000);
        ASSERT_EQ(::connect(socket.get(), to.data(), to.size()), 0);
        EXPECT_EQ(local_of(socket.get()).with_port(0), local);
        EXPECT_EQ(covered.owner_kind(kTcp, port_of(socket.get())), BERTH_CONNECTED);
    });
}

// Trap 7.
TEST(BpfBind, PortIsLeftToConnectWhereTheProgramSaysSo) {
    in_covered_namespace([](Covered&) {
        const Descriptor socket = plain_socket(SOCK_STREAM);
        set_option(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        const Address local = Address::loopback(Family::ipv4);
        ASSERT_EQ(::bind(socket.get(), local.data(), local.size()), 0);
        EXPECT_EQ(port_of(socket.get()), 0);
    });
}

TEST(BpfBind, RangeOfTheSocketItselfIsObeyed) {
    in_covered_namespace([](Covered& covered) {
        const Descriptor socket = plain_socket(SOCK_STREAM);
        const int range = 40042 | 40042 << 16;
        if (::setsockopt(socket.get(), IPPROTO_IP, IP_LOCAL_PORT_RANGE, &range, sizeof(range)) !=
            0) {
            GTEST_SKIP() << "this kernel has no IP_LOCAL_PORT_RANGE";
        }
        const Address local = Address::any(Family::ipv4);
        ASSERT_EQ(::bind(socket.get(), local.data(), local.size()), 0);
        EXPECT_EQ(port_of(socket.get()), 40042);
        EXPECT_EQ(covered.owner_kind(kTcp, 40042), BERTH_HELD);
    });
}

// Trap 10.
TEST(BpfHolders, PortOfAGroupIsTakenUntilItsLastHolderGoes) {
    for (const Protocol protocol : kProtocols) {
        for (const bool is_first_gone_first : {true, false}) {
            in_covered_namespace([&](Covered& covered) {
                const Address local = Address::any(Family::ipv4, 40050);
                std::array<Bound, 3> group{bind_to(protocol, local, true),
                                           bind_to(protocol, local, true),
                                           bind_to(protocol, local, true)};
                for (const Bound& bound : group) ASSERT_EQ(bound.error, 0);
                if (!is_first_gone_first) std::ranges::reverse(group);
                group[0].socket.reset();
                EXPECT_EQ(covered.owner_kind(protocol, 40050), BERTH_HELD);
                group[1].socket.reset();
                EXPECT_EQ(covered.owner_kind(protocol, 40050), BERTH_HELD);
                group[2].socket.reset();
                EXPECT_EQ(covered.owner_kind(protocol, 40050), BERTH_NOBODY);
                EXPECT_TRUE(covered.table(protocol).is_resting(40050, false));
            });
        }
    }
}

// Where the kernel's own choice hands out ports that are in use.
TEST(BpfHolders, ReusingSocketsGetPortsOfTheirOwn) {
    in_covered_namespace([](Covered&) {
        std::set<std::uint16_t> ports;
        std::vector<Bound> all;
        for (unsigned i = 0; i < kSmallRange.size(); ++i) {
            all.push_back(bind_to(kUdp, Address::any(Family::ipv4), true));
            ASSERT_EQ(all.back().error, 0);
            ports.insert(all.back().port);
        }
        EXPECT_EQ(ports.size(), kSmallRange.size());
    });
}

// Trap 11.
TEST(BpfRelease, PortLivesAsLongAsAnyDescriptorOfIt) {
    in_covered_namespace([](Covered& covered) {
        Bound bound = bind_zero(kUdp);
        Descriptor copy(::dup(bound.socket.get()));
        bound.socket.reset();
        EXPECT_EQ(covered.owner_kind(kUdp, bound.port), BERTH_HELD);
        std::array<int, 2> ends{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends.data()), 0);
        send_descriptor(ends[0], "x", copy.get());
        copy.reset();
        EXPECT_EQ(covered.owner_kind(kUdp, bound.port), BERTH_HELD);
        ::close(ends[0]);
        ::close(ends[1]);
        EXPECT_TRUE(
            poll_until([&] { return covered.owner_kind(kUdp, bound.port) == BERTH_NOBODY; }));
    });
}

TEST(BpfRelease, PortsOfAKilledProcessComeBack) {
    in_covered_namespace([](Covered& covered) {
        const pid_t child = ::fork();
        if (child == 0) {
            const std::vector<Bound> all = bind_all(kUdp);
            ::raise(SIGKILL);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status));
        EXPECT_TRUE(covered.is_true(kUdp));
        EXPECT_EQ(bind_all(kUdp).size(), kSmallRange.size());
    });
}

// Trap 12.
TEST(BpfNamespaces, NewNamespaceIsTheKernelsUntilTheNextLook) {
    in_covered_namespace([](Covered& covered) {
        const Descriptor of_old = plain_socket(SOCK_DGRAM);
        const TableMap old_table = covered.table(kUdp);
        ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
        EXPECT_EQ(bind_zero(kUdp).error, 0);
        const Address any = Address::any(Family::ipv4);
        ASSERT_EQ(::bind(of_old.get(), any.data(), any.size()), 0);
        const std::uint16_t port = port_of(of_old.get());
        EXPECT_TRUE(kSmallRange.contains(port));
        EXPECT_EQ(internal::bpf::kind_of(old_table.owner(port)), BERTH_HELD);
        EXPECT_EQ(covered.look().new_count, 1U);
        EXPECT_EQ(bind_zero(kUdp).error, 0);
        EXPECT_EQ(covered.cover().counters(kUdp)->given, 1U);
    });
}

TEST(BpfNamespaces, TableGoesWithItsNamespace) {
    in_covered_namespace([](Covered& covered) {
        std::array<int, 2> stop{};
        ASSERT_EQ(::pipe2(stop.data(), O_CLOEXEC), 0);
        const pid_t child = ::fork();
        if (child == 0) {
            ::close(stop[1]);
            ::unshare(CLONE_NEWNET);
            char byte = 0;
            (void)!::read(stop[0], &byte, 1);
            ::_exit(0);
        }
        EXPECT_TRUE(poll_until([&] { return covered.look().namespace_count == 2; }));
        EXPECT_EQ(covered.cover().maps().keys().size(), 4U);
        ::close(stop[1]);
        ASSERT_EQ(::waitpid(child, nullptr, 0), child);
        covered.look_thoroughly();
        EXPECT_EQ(covered.cover().maps().keys().size(), 2U);
    });
}

TEST(BpfNamespaces, ChangedSettingsAreFollowed) {
    in_covered_namespace([](Covered& covered) {
        write_setting("ipv4/ip_local_port_range", "41000 41009");
        covered.look();
        std::vector<Bound> all = bind_all(kUdp);
        EXPECT_EQ(all.size(), 10U);
        EXPECT_TRUE(std::ranges::all_of(
            all, [](const Bound& bound) { return PortRange(41000, 41009).contains(bound.port); }));
    });
}

// Fail safe: nobody looks after the table any more.
TEST(BpfSafety, ProgramsStepAsideWhenNobodyLooks) {
    in_covered_namespace([](Covered& covered) {
        covered.table(kUdp).extend(0);
        covered.table(kTcp).extend(0);
        EXPECT_EQ(bind_zero(kUdp).error, 0);
        EXPECT_EQ(bind_zero(kTcp).error, 0);
        EXPECT_EQ(connect_new(kUdp, at(9)).error, 0);
        EXPECT_EQ(covered.cover().counters(kUdp)->given, 0U);
        EXPECT_EQ(covered.cover().counters(kTcp)->given, 0U);
        covered.look();
        EXPECT_EQ(bind_zero(kUdp).error, 0);
        EXPECT_EQ(covered.cover().counters(kUdp)->given, 1U);
    });
}

// A table whose counts are wrong still finds its last free port.
TEST(BpfSafety, WrongCountsCostTimeOnly) {
    in_covered_namespace([](Covered& covered) {
        std::vector<Bound> all = bind_all(kUdp);
        ASSERT_EQ(all.size(), kSmallRange.size());
        all.resize(kSmallRange.size() - 1);
        const TableMap table = covered.table(kUdp);
        for (auto& count : table.table().free_counts) count = 7;
        EXPECT_EQ(bind_zero(kUdp).error, 0);
        covered.look();
        int sum = 0;
        for (const auto& count : table.table().free_counts) sum += count;
        EXPECT_EQ(sum, static_cast<int>(table.occupancy().free));
    });
}

// Trap 15: uniform over the free ports, and a key for each table.
TEST(BpfChoice, IsUniformOverTheFreePorts) {
    in_covered_namespace({.range = kSmallRange}, {.rests = {.brief_ms = 0}}, [](Covered& covered) {
        // Half of the ports taken, in one run: a search from a random start would prefer its end.
        const std::vector<Descriptor> taken =
            strangers(kUdp, Address::any(Family::ipv4), {40000, 40049});
        constexpr int kRounds = 10'000;
        std::array<int, 50> hits{};
        for (int i = 0; i < kRounds; ++i) {
            const Bound bound = bind_zero(kUdp);
            if (bound.error != 0) continue;  // closed and not yet let go
            ASSERT_GE(bound.port, 40050);
            ++hits.at(bound.port - 40050U);
        }
        double chi_square = 0;
        constexpr double kExpected = kRounds / 50.0;
        for (const int count : hits) {
            chi_square += (count - kExpected) * (count - kExpected) / kExpected;
        }
        // 49 degrees of freedom: above 120 once in ten million.
        EXPECT_LT(chi_square, 120.0);
        const TableMap udp = covered.table(kUdp);
        const TableMap tcp = covered.table(kTcp);
        EXPECT_NE(std::memcmp(udp.table().key, tcp.table().key, sizeof(udp.table().key)), 0);
    });
}

// BERTH_SOCKET_LIVES=1000000 for the whole of it.
TEST(BpfSafety, NoPortIsLostInManyLivesNearExhaustion) {
    const char* wanted = std::getenv("BERTH_SOCKET_LIVES");
    const long life_count = wanted != nullptr ? std::atol(wanted) : 20'000;
    in_covered_namespace({.range = kSmallRange, .timeout_seconds = 600}, {}, [&](Covered& covered) {
        for (const Protocol protocol : kProtocols) {
            std::vector<Bound> all = bind_all(protocol);
            all.resize(kSmallRange.size() - 1);
            long error_count = 0;
            for (long i = 0; i < life_count; ++i) {
                if (i % 5'000 == 0) covered.look();
                error_count += bind_zero(protocol).error != 0 ? 1 : 0;
            }
            // One port, given again a moment after each close.
            EXPECT_LT(error_count, life_count / 10);
            all.clear();
            EXPECT_TRUE(poll_until([&] {
                covered.look();
                return table_is_all_free(covered, protocol);
            }));
            EXPECT_TRUE(covered.is_true(protocol));
        }
    });
}

}  // namespace
}  // namespace berth::test
