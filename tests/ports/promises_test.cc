// SPDX-License-Identifier: Apache-2.0
// A port that berth has given to one holder is not given to another: not by a connection that
// begins at the same moment, not by a list of the kernel's that came too early, not by a holder
// whose port was taken back, and not by a bind that names it.
#include "src/ports/reconcile.h"
#include "src/ports/table_state.h"

#include "tests/support/core_table.h"
#include "tests/support/fault_injection.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::address;
using test::Call;
using test::CoreTable;
using test::failed_with;
using test::FaultPlan;
using test::in_network_namespace;
using test::kProtocols;
using test::listener;
using test::new_socket;
using test::new_table;
using test::succeeded;

constexpr PortRange kSmall = {40000, 40015};
const TableOptions kNoRest = {.rest_period = milliseconds(0)};

// Who has a port; the second one of two sees the first.
class Holders {
public:
    void hold(std::uint16_t port, bool is_connection) {
        held_[is_connection][port - kSmall.first] = true;
        doubled_count_ += held_[!is_connection][port - kSmall.first] ? 1 : 0;
    }
    void let_go(std::uint16_t port, bool is_connection) {
        held_[is_connection][port - kSmall.first] = false;
    }
    unsigned doubled_count() const { return doubled_count_; }

private:
    std::array<std::array<std::atomic<bool>, kSmall.last - kSmall.first + 1>, 2> held_{};
    std::atomic<unsigned> doubled_count_{0};
};

// Connects and closes until the deadline; leaves no TIME_WAIT behind. Returns how often.
unsigned connect_all_the_time(PortTable& table, Holders& holders, milliseconds limit) {
    const Address remote = address("127.0.0.1:20000");
    const Descriptor server = listener(remote);
    const auto deadline = steady_clock::now() + limit;
    unsigned count = 0;
    while (steady_clock::now() < deadline) {
        Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        const linger without_time_wait = {1, 0};
        ::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &without_time_wait,
                     sizeof without_time_wait);
        const auto port = table.connect(socket, remote);
        if (!port) {
            EXPECT_TRUE(failed_with(port, Errc::ports_exhausted));
            continue;
        }
        ++count;
        holders.hold(port->number(), true);
        const Descriptor accepted(::accept(server.get(), nullptr, nullptr));
        holders.let_go(port->number(), true);
        socket.close();
    }
    return count;
}

// Takes and leases ports all the time, and holds each for longer than a connect() takes: so one
// that was given to a connection, too, is seen.
class Promiser {
public:
    Promiser(PortTable& table, Holders& holders) : table_(table), holders_(holders) {}
    ~Promiser() {
        while (!held_.empty()) let_oldest_go();
    }

    void step() {
        if (held_.size() < kHeldLimit) {
            take_or_lease();
        } else if (steady_clock::now() >= held_.front().until) {
            let_oldest_go();
        }
    }

private:
    static constexpr std::size_t kHeldLimit = 5;  // of 8
    struct Held {
        Port port;
        std::uint64_t token;  // of a lease; its port is `number`
        std::uint16_t number;
        steady_clock::time_point until;
    };

    void take_or_lease() {
        const auto until = steady_clock::now() + std::chrono::microseconds(100);
        is_lease_ = !is_lease_;
        if (is_lease_) {
            if (const auto lease = table_.lease()) {
                held_.push_back({{}, lease->token, lease->ports[0], until});
                holders_.hold(lease->ports[0], false);
            }
        } else if (auto port = table_.take()) {
            const std::uint16_t number = port->number();
            held_.push_back({std::move(*port), 0, number, until});
            holders_.hold(number, false);
        }
    }

    void let_oldest_go() {
        holders_.let_go(held_.front().number, false);
        if (held_.front().token != 0) {
            EXPECT_TRUE(succeeded(table_.give_back(held_.front().token)));
        }
        held_.pop_front();
    }

    PortTable& table_;
    Holders& holders_;
    std::deque<Held> held_;
    bool is_lease_ = false;
};

TEST(Promise, ConnectionNeverGetsAPortThatIsLeasedOrTakenAtTheSameMoment) {
    in_network_namespace({.range = {40000, 40007}}, [] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        Holders holders;
        std::atomic<bool> is_over{false};
        std::thread promises([&] {
            Promiser promiser(table, holders);
            while (!is_over) promiser.step();
        });
        const unsigned count = connect_all_the_time(table, holders, milliseconds(800));
        is_over = true;
        promises.join();
        EXPECT_GT(count, 20U);
        EXPECT_EQ(holders.doubled_count(), 0U) << "in " << count << " connections";
    });
}

bool is_connected(const Socket& socket) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    return ::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&storage), &size) == 0;
}

std::unique_ptr<TableState> new_state(Protocol protocol, PortRange range) {
    auto memory = TableMemory::create_private({protocol, 0, range, false});
    EXPECT_TRUE(succeeded(memory));
    auto state = TableState::make(std::move(*memory), {});
    EXPECT_TRUE(succeeded(state));
    return std::move(*state);
}

// What a connect() sees when the promise is given between its look at the free ports and its claim:
// their bits are still set.
TEST(Promise, ConnectionLooksAgainAfterItsClaim) {
    in_network_namespace({.range = {40000, 40003}}, [] {
        const Address remote = address("127.0.0.1:20000");
        const Descriptor server = listener(remote);
        for (const bool is_leased : {true, false}) {
            const auto table = new_state(Protocol::tcp, {40000, 40003});
            std::vector<Port> taken;
            for (unsigned i = 0; i < 4 && !is_leased; ++i) {
                auto port = table->take(TakeFamily::both);
                ASSERT_TRUE(succeeded(port));
                taken.push_back(std::move(*port));
            }
            if (is_leased) {
                ASSERT_TRUE(succeeded(table->lease({.count = 4})));
            }
            for (std::uint16_t port = 40000; port <= 40003; ++port) {
                table->core().space(kWildcardSpace).free.release(port);
                table->core().space(kWildcardSpace + 1).free.release(port);
            }
            const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            EXPECT_TRUE(failed_with(table->connect(SocketTraits::of(socket), remote),
                                    Errc::ports_exhausted));
            EXPECT_FALSE(is_connected(socket));
        }
    });
}

// The lease of `count` ports that `table` grants while the kernel is asked for a connection for the
// `nth` time.
Result<Lease> lease_during_connect(PortTable& table, std::uint32_t count, unsigned nth,
                                   const std::function<void()>& connect) {
    Result<Lease> lease = Lease{};
    unsigned asked = 0;
    FaultPlan faults;
    faults.fail_if(Call::connect, EADDRNOTAVAIL, [&](const test::CallDetails&) {
        if (++asked == nth) lease = table.lease({.count = count});
        return asked < nth;  // each port of the table's is refused first
    });
    connect();
    EXPECT_GE(asked, nth) << "the kernel was not asked to choose";
    return lease;
}

TEST(Promise, PortThatTheKernelChoosesIsNotOneThatWasLeasedMeanwhile) {
    in_network_namespace({.range = {40000, 40001}}, [] {
        const Descriptor server = listener(address("127.0.0.1:20000"));
        for (const std::uint32_t lease_count : {1U, 2U}) {
            for (unsigned round = 0; round < 8; ++round) {
                PortTable table = new_table(Protocol::tcp, kNoRest);
                const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
                std::optional<Result<Port>> port;
                // Two ports, refused before and after the look at the kernel's list.
                const auto lease = lease_during_connect(table, lease_count, 5, [&] {
                    port = table.connect(socket, address("127.0.0.1:20000"));
                });
                ASSERT_TRUE(succeeded(lease));
                if (lease_count == 2) {
                    EXPECT_TRUE(failed_with(*port, Errc::ports_exhausted));
                    EXPECT_FALSE(is_connected(socket));
                } else {
                    ASSERT_TRUE(succeeded(*port));
                    EXPECT_NE((*port)->number(), lease->ports[0]);
                    EXPECT_EQ(test::local_of(socket.fd()).port(), (*port)->number());
                }
                const linger without_time_wait = {1, 0};
                ::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &without_time_wait,
                             sizeof without_time_wait);
            }
        }
    });
}

// A table over no sockets at all, so that each list of the kernel's misses what the test claims.
class EarlyList : public testing::Test {
protected:
    std::uint32_t reconcile(std::uint64_t now_ms, Protocol protocol = Protocol::udp) {
        const auto report = reconcile_with_kernel(*table_, protocol, lost_, now_ms);
        EXPECT_TRUE(succeeded(report));
        return report ? report->ports_reclaimed : 0;
    }

    CoreTable table_{kSmall};
    LostSockets lost_;
};

TEST_F(EarlyList, PortBetweenItsClaimAndItsBindStaysItsHolders) {
    in_network_namespace([this] {
        const Footprint v4 = table_.wildcard(true, false);
        const OwnerWord owner = claim_word() | kBoundFlag;
        ASSERT_TRUE(table_->claim(v4, 40000, owner));
        EXPECT_EQ(reconcile(5'000), 0U);
        EXPECT_EQ(reconcile(5'000 + LostSockets::kGraceMs - 1), 0U);
        EXPECT_EQ(table_.space(0).owner(40000), owner);
        EXPECT_EQ(reconcile(5'000 + LostSockets::kGraceMs), 1U) << "closed without telling";
        EXPECT_TRUE(table_.space(0).free.is_free(40000));
    });
}

TEST_F(EarlyList, NewClaimOfTheSamePortBeginsAnew) {
    in_network_namespace([this] {
        const Footprint v4 = table_.wildcard(true, false);
        const OwnerWord first = claim_word() | kBoundFlag;
        ASSERT_TRUE(table_->claim(v4, 40000, first));
        EXPECT_EQ(reconcile(5'000), 0U);
        table_->release(v4, 40000, first);
        const OwnerWord second = claim_word() | kBoundFlag;
        ASSERT_TRUE(table_->claim(v4, 40000, second));
        EXPECT_EQ(reconcile(6'000), 0U);
        EXPECT_EQ(table_.space(0).owner(40000), second);
        EXPECT_EQ(reconcile(7'000), 1U);
    });
}

TEST_F(EarlyList, ConnectionOnItsWayKeepsItsPort) {
    in_network_namespace([this] {
        table_->add_connection(Family::ipv4, 40000);
        EXPECT_EQ(reconcile(5'000, Protocol::tcp), 0U);
        table_->add_connection(Family::ipv4, 40000);
        EXPECT_EQ(reconcile(6'000, Protocol::tcp), 0U) << "one more since then";
        EXPECT_FALSE(table_.space(kConnectedSpace).free.is_free(40000));
        EXPECT_EQ(reconcile(7'000, Protocol::tcp), 1U);
        EXPECT_TRUE(table_.space(kConnectedSpace).free.is_free(40000));
    });
}

TEST_F(EarlyList, PortThatWasOnlyTakenIsNeverMissed) {
    in_network_namespace([this] {
        ASSERT_TRUE(table_->claim(table_.wildcard(true, true), 40000, claim_word()));
        EXPECT_EQ(reconcile(5'000), 0U);
        EXPECT_EQ(reconcile(9'000), 0U);
        EXPECT_FALSE(table_.space(0).free.is_free(40000));
    });
}

TEST(StalePort, DoesNotGiveAwayWhatAnotherSocketOfTheProcessHasGotSince) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        const auto table = new_state(Protocol::udp, {40000, 40000});
        const Address any = Address::any(Family::ipv4);
        Socket first = new_socket(Protocol::udp, Family::ipv4);
        auto stale = table->bind(SocketTraits::of(first), any, {});
        ASSERT_TRUE(succeeded(stale));
        first.close();
        LostSockets lost;
        for (const std::uint64_t now : {std::uint64_t{5'000}, 5'000 + LostSockets::kGraceMs}) {
            ASSERT_TRUE(succeeded(reconcile_with_kernel(table->core(), Protocol::udp, lost, now)));
        }
        const Socket second = new_socket(Protocol::udp, Family::ipv4);
        const auto port = table->bind(SocketTraits::of(second), any, {});
        ASSERT_TRUE(succeeded(port));
        stale->release();
        EXPECT_FALSE(table->core().space(kWildcardSpace).free.is_free(40000));
        EXPECT_TRUE(failed_with(table->take(TakeFamily::ipv4), Errc::ports_exhausted));
    });
}

// A process that takes a port and holds it until it is killed.
struct Taker {
    pid_t process;
    std::uint16_t port = 0;

    explicit Taker(PortTable& table) {
        int ends[2];
        EXPECT_EQ(::pipe(ends), 0);
        process = ::fork();
        if (process == 0) {
            const auto taken = table.take();
            const std::uint16_t number = taken ? taken->number() : std::uint16_t{0};
            static_cast<void>(::write(ends[1], &number, sizeof number));
            while (true) ::pause();
        }
        EXPECT_EQ(::read(ends[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
        ::close(ends[0]);
        ::close(ends[1]);
    }
    void end() const {
        ::kill(process, SIGKILL);
        EXPECT_EQ(::waitpid(process, nullptr, 0), process);
    }
};

TEST(TakenPort, IsNotBoundByNumberInAnotherProcess) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            auto table = PortTable::create_shared(protocol, kNoRest);
            ASSERT_TRUE(succeeded(table));
            const Taker taker(*table);
            ASSERT_NE(taker.port, 0);
            for (const char* text : {"0.0.0.0", "127.0.0.1", "::", "::1"}) {
                const Address local = address(text).with_port(taker.port);
                const Socket socket = new_socket(protocol, local.family());
                EXPECT_TRUE(failed_with(table->bind(socket, local), Errc::port_in_use)) << text;
                EXPECT_EQ(test::local_of(socket.fd()).port(), 0) << text;
            }
            taker.end();
            const Socket socket = new_socket(protocol, Family::ipv4);
            EXPECT_TRUE(succeeded(table->bind(socket, Address::any(Family::ipv4, taker.port))))
                << "nobody has it any more";
        }
    });
}

TEST(TakenPort, IsBoundByNumberInItsOwnProcess) {
    in_network_namespace({.range = kSmall}, [] {
        for (const char* text : {"0.0.0.0", "127.0.0.1", "::"}) {
            PortTable table = new_table(Protocol::udp, kNoRest);
            const auto taken = table.take();
            ASSERT_TRUE(succeeded(taken));
            const Socket socket = new_socket(Protocol::udp, address(text).family());
            EXPECT_TRUE(succeeded(table.bind(socket, address(text).with_port(taken->number()))))
                << text;
        }
    });
}

}  // namespace
}  // namespace berth::internal
