// SPDX-License-Identifier: Apache-2.0
// A socket outlives the process that bound it, because a child has inherited it.
//
//   test ── forks ▶ parent: binds, forks, exits
//                      └─▶ heir: only keeps the socket open, until it is killed
#include "src/ports/table_state.h"

#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using test::address;
using test::failed_with;
using test::in_network_namespace;
using test::new_socket;
using test::succeeded;

constexpr PortRange kSmall = {40000, 40003};
// A port that only rests would be used early when there is no other.
constexpr std::uint32_t kRestPeriodMs = 3'600'000;

struct Heir {
    pid_t process = 0;
    std::uint16_t port = 0;
};

std::unique_ptr<TableState> shared_table(Protocol protocol) {
    auto memory = TableMemory::create_memfd({protocol, kRestPeriodMs, kSmall, false});
    EXPECT_TRUE(succeeded(memory));
    auto table = TableState::make(std::move(*memory), {});
    EXPECT_TRUE(succeeded(table));
    return std::move(*table);
}

[[noreturn]] void be_parent(TableState& table, const Address& local, int pipe) {
    const Socket socket = new_socket(table.protocol(), local.family());
    auto port = table.bind(SocketTraits::of(socket), local, {});
    if (table.protocol() == Protocol::tcp) {
        ::listen(socket.fd(), 1);  // kernels before 6.8 list no TCP socket that is only bound
    }
    Heir heir{0, port ? port->number() : std::uint16_t{0}};
    heir.process = ::fork();
    if (heir.process == 0) {
        ::close(pipe);
        while (true) ::pause();
    }
    static_cast<void>(::write(pipe, &heir, sizeof heir));
    ::_exit(0);
}

Heir leave_socket_to_heir(TableState& table, const Address& local) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
        be_parent(table, local, ends[1]);
    }
    ::close(ends[1]);
    EXPECT_EQ(::waitpid(parent, nullptr, 0), parent);
    Heir heir;
    EXPECT_EQ(::read(ends[0], &heir, sizeof heir), static_cast<ssize_t>(sizeof heir));
    ::close(ends[0]);
    return heir;
}

void end(const Heir& heir) {
    ::kill(heir.process, SIGKILL);
    EXPECT_EQ(::waitpid(heir.process, nullptr, 0), heir.process);
}

// How many ports can be taken and then bound; `inherited` must be none of them.
void expect_ports(TableState& table, const Address& any, unsigned count, std::uint16_t inherited) {
    std::vector<Port> taken;
    while (auto port = table.take(TakeFamily::both)) {
        EXPECT_NE(port->number(), inherited);
        taken.push_back(std::move(*port));
    }
    EXPECT_EQ(taken.size(), count);
    taken.clear();
    std::vector<std::pair<Socket, Port>> bound;
    while (true) {
        Socket socket = new_socket(table.protocol(), any.family());
        auto port = table.bind(SocketTraits::of(socket), any, {});
        if (!port) {
            EXPECT_TRUE(failed_with(port, Errc::ports_exhausted));
            break;
        }
        EXPECT_NE(port->number(), inherited);
        bound.emplace_back(std::move(socket), std::move(*port));
    }
    EXPECT_EQ(bound.size(), count);
}

void expect_port_follows_its_heir(Protocol protocol, const Address& local) {
    const auto table = shared_table(protocol);
    const Heir heir = leave_socket_to_heir(*table, local);
    ASSERT_NE(heir.port, 0);
    ASSERT_TRUE(succeeded(table->reconcile()));
    const Footprint footprint =
        footprint_of_bind(table->core().header(), local, local.family() == Family::ipv6);
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        const OwnerWord owner = table->core().space(footprint.takes[i]).owner(heir.port);
        EXPECT_EQ(kind_of(owner), OwnerKind::kernel);
    }
    table->sweep();
    expect_ports(*table, Address::any(local.family()), 3, heir.port);
    ASSERT_TRUE(succeeded(table->reconcile()));
    expect_ports(*table, Address::any(local.family()), 3, heir.port);
    end(heir);
    ASSERT_TRUE(succeeded(table->reconcile()));
    expect_ports(*table, Address::any(local.family()), 4, 0);
}

TEST(InheritedSocket, KeepsItsPortUntilTheHeirIsGone) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : test::kProtocols) {
            for (const char* local : {"0.0.0.0", "127.0.0.1", "::"}) {
                SCOPED_TRACE(std::string(to_string(protocol)) + ' ' + local);
                expect_port_follows_its_heir(protocol, address(local));
            }
        }
    });
}

}  // namespace
}  // namespace berth::internal
