// SPDX-License-Identifier: Apache-2.0
// Short stories that must end the same way on the real kernel and on the simulated one. Those of
// TCP wait for what they expect, since a real kernel may take its time.
#include "src/engine/simulation/simulation.h"

#include "src/base/kernel_constants.h"

#include "tests/engine/simulation/socket_helpers.h"
#include "tests/support/network_namespace.h"

#include <gtest/gtest.h>
#include <netinet/udp.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <functional>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace berth::internal {
namespace {

using namespace test;

// Makes the descriptors that no call of the table makes.
class Host {
public:
    virtual ~Host() = default;
    virtual int epoll() = 0;
    virtual int wakeup() = 0;
    virtual std::array<int, 2> pipe() = 0;
    virtual std::array<int, 2> socket_pair(int type) = 0;
    virtual int file(std::string_view contents) = 0;
};

class SimulatedHost final : public Host {
public:
    explicit SimulatedHost(Simulation& simulation) : simulation_(simulation) {}

    int epoll() override { return simulation_.make_epoll(); }
    int wakeup() override { return simulation_.make_wakeup(); }
    std::array<int, 2> pipe() override { return simulation_.make_pipe(); }
    std::array<int, 2> socket_pair(int type) override { return simulation_.make_socket_pair(type); }
    int file(std::string_view contents) override { return simulation_.make_file(contents); }

private:
    Simulation& simulation_;
};

class RealHost final : public Host {
public:
    int epoll() override { return ::epoll_create1(EPOLL_CLOEXEC); }
    int wakeup() override { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }
    std::array<int, 2> pipe() override {
        std::array<int, 2> ends{-1, -1};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
        return ends;
    }
    std::array<int, 2> socket_pair(int type) override {
        std::array<int, 2> ends{-1, -1};
        EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
        return ends;
    }
    int file(std::string_view contents) override {
        const int fd = ::memfd_create("berth", MFD_CLOEXEC);
        EXPECT_EQ(::pwrite(fd, contents.data(), contents.size(), 0),
                  static_cast<ssize_t>(contents.size()));
        return fd;
    }
};

void on_both_kernels(const std::function<void(Host&)>& story) {
    {
        const testing::ScopedTrace trace(__FILE__, __LINE__, "on the simulated kernel");
        Simulation simulation;
        SimulatedHost host(simulation);
        story(host);
    }
    in_network_namespace([&story] {
        const testing::ScopedTrace trace(__FILE__, __LINE__, "on the real kernel");
        RealHost host;
        story(host);
    });
}

ssize_t write_text(int fd, std::string text) {
    const iovec part{text.data(), text.size()};
    return calls().pwritev2(fd, &part, 1, -1, 0);
}
std::string read_text(int fd, std::size_t size = 200'000) {
    std::string text(size, '\0');
    const iovec part{text.data(), text.size()};
    const ssize_t count = calls().preadv2(fd, &part, 1, -1, 0);
    return count < 0 ? ::strerrorname_np(errno) : text.substr(0, static_cast<std::size_t>(count));
}

constexpr std::uint32_t kEverything = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

TEST(SimulationScenarios, PagesOfAPipe) {
    on_both_kernels([](Host& host) {
        const auto [reader, writer] = host.pipe();
        int count = 0;
        while (write_text(writer, std::string(1'500, 'x')) == 1'500) ++count;
        EXPECT_EQ(count, 32);
        EXPECT_EQ(read_text(reader).size(), 48'000U);
        EXPECT_EQ(write_text(writer, std::string(100'000, 'x')), 65'536);
        EXPECT_EQ(read_text(reader, 4'095).size(), 4'095U);
        EXPECT_FAILS(EAGAIN, write_text(writer, "x"));
        EXPECT_EQ(poll_now(writer), 0);
        EXPECT_EQ(read_text(reader, 1), "x");
        EXPECT_EQ(poll_now(writer), POLLOUT);
        EXPECT_EQ(write_text(writer, std::string(5'000, 'y')), 4'096);
        EXPECT_EQ(read_text(reader, 3 * 4'096).size(), 3 * 4'096U);
        EXPECT_EQ(write_text(writer, std::string(5'000, 'y')), 5'000);
        EXPECT_EQ(write_text(writer, std::string(4'000, 'y')), 4'000);
        EXPECT_FAILS(EAGAIN, write_text(writer, std::string(3'192, 'y')));
    });
}

TEST(SimulationScenarios, EdgesOfAPipe) {
    on_both_kernels([](Host& host) {
        const int epoll = host.epoll();
        const auto [reader, writer] = host.pipe();
        EXPECT_EQ(watch(epoll, reader, kEverything), 0);
        EXPECT_EQ(next_event(epoll), 0U);
        for (int number = 0; number < 3; ++number) {
            EXPECT_EQ(write_text(writer, "x"), 1);
            EXPECT_EQ(next_event(epoll), EPOLLIN);
            EXPECT_EQ(next_event(epoll), 0U);
        }
        EXPECT_EQ(watch(epoll, writer, kEverything), 0);
        EXPECT_EQ(next_event(epoll), EPOLLOUT);
        while (write_text(writer, std::string(4'096, 'x')) > 0) {
        }
        EXPECT_EQ(next_event(epoll), EPOLLIN);
        EXPECT_EQ(read_text(reader, 2).size(), 2U);
        EXPECT_EQ(next_event(epoll), 0U);
        EXPECT_EQ(read_text(reader, 9'000).size(), 9'000U);
        EXPECT_EQ(next_event(epoll), EPOLLOUT);
        EXPECT_EQ(read_text(reader, 9'000).size(), 9'000U);
        EXPECT_EQ(next_event(epoll), 0U);
        close_all({writer});
        EXPECT_EQ(next_event(epoll), EPOLLIN | EPOLLHUP);
    });
}

TEST(SimulationScenarios, CountsOfAWakeup) {
    on_both_kernels([](Host& host) {
        const int epoll = host.epoll();
        const int wakeup = host.wakeup();
        EXPECT_EQ(watch(epoll, wakeup, EPOLLIN | EPOLLOUT | EPOLLET), 0);
        EXPECT_EQ(next_event(epoll), EPOLLOUT);
        std::uint64_t value = 5;
        const iovec part{&value, sizeof(value)};
        for (int number = 0; number < 2; ++number) {
            EXPECT_EQ(calls().pwritev2(wakeup, &part, 1, -1, 0), 8);
            EXPECT_EQ(next_event(epoll), EPOLLIN | EPOLLOUT);
        }
        EXPECT_EQ(calls().preadv2(wakeup, &part, 1, -1, 0), 8);
        EXPECT_EQ(value, 10U);
        EXPECT_EQ(next_event(epoll), EPOLLOUT);
        EXPECT_FAILS(EAGAIN, calls().preadv2(wakeup, &part, 1, -1, 0));
        value = ~std::uint64_t{0} - 1;
        EXPECT_EQ(calls().pwritev2(wakeup, &part, 1, -1, 0), 8);
        EXPECT_EQ(poll_now(wakeup), POLLIN);
        EXPECT_FAILS(EAGAIN, calls().pwritev2(wakeup, &part, 1, -1, 0));
    });
}

TEST(SimulationScenarios, BackPressureOfTcp) {
    on_both_kernels([](Host& host) {
        const int server = listener();
        set_option(server, SOL_SOCKET, SO_RCVBUF, 20'000);
        const int client = open_tcp();
        set_option(client, SOL_SOCKET, SO_SNDBUF, 20'000);
        connect_to(client, local_name(server));
        poll_for(server, POLLIN, 10s);
        const int accepted = accept_from(server);
        const int epoll = host.epoll();
        EXPECT_EQ(watch(epoll, client, kEverything), 0);
        EXPECT_EQ(next_event(epoll, 10s), EPOLLOUT);
        fill(client);
        EXPECT_EQ(poll_now(client), 0);
        EXPECT_EQ(next_event(epoll), 0U);
        while (poll_for(accepted, POLLIN, 50ms) == POLLIN) receive_all(accepted);
        EXPECT_EQ(next_event(epoll, 10s), EPOLLOUT);
        EXPECT_EQ(poll_now(client), POLLOUT);
        EXPECT_EQ(next_event(epoll), 0U);
        close_all({server, client, accepted, epoll});
    });
}

TEST(SimulationScenarios, BackPressureOfUnixSockets) {
    on_both_kernels([](Host& host) {
        const int epoll = host.epoll();
        const auto pair = host.socket_pair(SOCK_STREAM);
        EXPECT_EQ(watch(epoll, pair[0], kEverything), 0);
        EXPECT_EQ(next_event(epoll), EPOLLOUT);
        fill(pair[0]);
        EXPECT_EQ(poll_now(pair[0]), 0);
        EXPECT_EQ(next_event(epoll), 0U);
        receive_all(pair[1]);
        EXPECT_EQ(next_event(epoll), EPOLLOUT);
        EXPECT_EQ(next_event(epoll), 0U);
    });
}

TEST(SimulationScenarios, ListenersTakeOneMoreThanTheirBacklog) {
    on_both_kernels([](Host&) {
        const int server = listener(1);
        std::vector<int> clients;
        for (int number = 0; number < 3; ++number) {
            clients.push_back(open_tcp());
            EXPECT_FAILS(EINPROGRESS, connect_to(clients.back(), local_name(server)));
            if (number < 2) {
                EXPECT_EQ(poll_for(clients.back(), POLLOUT, 10s), POLLOUT);
            }
        }
        EXPECT_EQ(poll_for(clients.back(), POLLOUT, 20ms), 0);
        EXPECT_GE(accept_from(server), 0);
        EXPECT_GE(accept_from(server), 0);
        EXPECT_FAILS(EAGAIN, accept_from(server));
    });
}

TEST(SimulationScenarios, BundlesOfDatagrams) {
    on_both_kernels([](Host&) {
        const int plain = bound_udp();
        const int bundled = bound_udp();
        const int sender = open_udp();
        EXPECT_EQ(set_option(bundled, SOL_UDP, UDP_GRO, 1), 0);
        EXPECT_EQ(set_option(sender, SOL_UDP, UDP_SEGMENT, 1'000), 0);
        for (const int receiver : {plain, bundled}) {
            EXPECT_EQ(send_text_to(sender, std::string(2'500, 'x'), local_name(receiver)), 2'500);
            EXPECT_EQ(poll_for(receiver, POLLIN, 10s), POLLIN);
        }
        EXPECT_EQ(receive(plain).size(), 1'000U);
        EXPECT_EQ(receive(plain).size(), 1'000U);
        EXPECT_EQ(receive(plain).size(), 500U);
        EXPECT_EQ(receive(bundled).size(), 2'500U);
        EXPECT_EQ(send_text_to(sender, std::string(1'000, 'x'), local_name(bundled)), 1'000);
        EXPECT_EQ(set_option(sender, SOL_UDP, UDP_SEGMENT, 10), 0);
        EXPECT_FAILS(EINVAL,
                     send_text_to(sender, std::string(10 * 128 + 1, 'x'), local_name(plain)));
        EXPECT_EQ(send_text_to(sender, std::string(10 * 128, 'x'), local_name(plain)), 1'280);
    });
}

TEST(SimulationScenarios, WaysOfEpoll) {
    on_both_kernels([](Host& host) {
        const int epoll = host.epoll();
        const auto pair = host.socket_pair(SOCK_STREAM);
        EXPECT_EQ(watch(epoll, pair[0], EPOLLIN | EPOLLONESHOT), 0);
        EXPECT_FAILS(EEXIST, watch(epoll, pair[0], EPOLLIN));
        send_text(pair[1], "x");
        EXPECT_EQ(next_event(epoll), EPOLLIN);
        send_text(pair[1], "x");
        EXPECT_EQ(next_event(epoll), 0U);
        EXPECT_EQ(watch(epoll, pair[0], EPOLLIN, EPOLL_CTL_MOD), 0);
        EXPECT_EQ(next_event(epoll), EPOLLIN);
        EXPECT_EQ(next_event(epoll), EPOLLIN);
        EXPECT_EQ(watch(epoll, pair[0], kEverything, EPOLL_CTL_MOD), 0);
        EXPECT_EQ(next_event(epoll), EPOLLIN | EPOLLOUT);
        EXPECT_EQ(next_event(epoll), 0U);
        EXPECT_EQ(watch(epoll, pair[0], 0, EPOLL_CTL_DEL), 0);
        EXPECT_FAILS(ENOENT, watch(epoll, pair[0], 0, EPOLL_CTL_MOD));
        EXPECT_FAILS(EPERM, watch(epoll, host.file("x"), EPOLLIN));
        EXPECT_FAILS(EINVAL, watch(epoll, epoll, EPOLLIN));
        const int outer = host.epoll();
        EXPECT_EQ(watch(outer, epoll, EPOLLIN | EPOLLET), 0);
        EXPECT_EQ(watch(epoll, pair[0], EPOLLIN), 0);
        EXPECT_EQ(next_event(outer), EPOLLIN);
        EXPECT_FAILS(ELOOP, watch(epoll, outer, EPOLLIN));
        close_all({pair[0]});
        EXPECT_EQ(next_event(epoll), 0U);
    });
}

TEST(SimulationScenarios, CopiesWithinTheKernel) {
    on_both_kernels([](Host& host) {
        const auto [reader, writer] = host.pipe();
        const auto pair = host.socket_pair(SOCK_STREAM);
        const int file = host.file("0123456789");
        off_t offset = 2;
        EXPECT_EQ(calls().splice(file, &offset, writer, nullptr, 5, 0), 5);
        EXPECT_EQ(offset, 7);
        EXPECT_EQ(calls().splice(reader, nullptr, pair[0], nullptr, 100, 0), 5);
        EXPECT_EQ(receive(pair[1]), "23456");
        EXPECT_FAILS(EAGAIN,
                     calls().splice(reader, nullptr, pair[0], nullptr, 100, SPLICE_F_NONBLOCK));
        EXPECT_EQ(calls().sendfile(pair[0], file, nullptr, 4), 4);
        EXPECT_EQ(read_text(file), "456789");
        offset = 9;
        EXPECT_EQ(calls().sendfile(pair[0], file, &offset, 100), 1);
        EXPECT_EQ(offset, 10);
        EXPECT_EQ(receive(pair[1]), "01239");
        EXPECT_FAILS(EINVAL, calls().splice(file, nullptr, pair[0], nullptr, 1, 0));
        EXPECT_FAILS(ESPIPE, calls().splice(reader, &offset, file, nullptr, 1, 0));
        close_all({writer});
        EXPECT_EQ(calls().splice(reader, nullptr, pair[0], nullptr, 10, 0), 0);
    });
}

// A way to bind, and what is known of it before.
struct Binding {
    const char* host;
    int reuse_option;  // 0, SO_REUSEADDR or SO_REUSEPORT
    bool is_v6_only;
};

std::vector<Binding> all_bindings() {
    std::vector<Binding> bindings;
    for (const int option : {0, SO_REUSEADDR, SO_REUSEPORT}) {
        for (const char* host : {"0.0.0.0", "127.0.0.1", "127.0.0.2", "::", "::1",
                                 "::ffff:127.0.0.1", "::ffff:0.0.0.0"}) {
            bindings.push_back({host, option, false});
        }
        bindings.push_back({"::", option, true});
        bindings.push_back({"::1", option, true});
    }
    return bindings;
}

int prepare(Protocol protocol, const Binding& binding) {
    const Family family = at(binding.host).family();
    const int fd = protocol == Protocol::tcp ? open_tcp(family) : open_udp(family);
    if (binding.reuse_option != 0) {
        set_option(fd, SOL_SOCKET, binding.reuse_option, 1);
    }
    if (family == Family::ipv6) {
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, binding.is_v6_only ? 1 : 0);
    }
    return fd;
}

// What two sockets that want the same port are told: the second's bind() by number, by a range
// that has no other, and the listen() of the second.
std::string answers(Protocol protocol, const Binding& first, const Binding& second,
                    bool is_listening) {
    constexpr std::uint16_t kPort = 33'333;
    const int one = prepare(protocol, first);
    EXPECT_EQ(bind_to(one, at(first.host).with_port(kPort)), 0) << std::strerror(errno);
    if (is_listening) {
        calls().listen(one, 1);
    }
    const auto outcome = [](int result) {
        return std::string(result == 0 ? "ok " : ::strerrorname_np(errno)) + ' ';
    };
    std::string text;
    const int two = prepare(protocol, second);
    text += outcome(bind_to(two, at(second.host).with_port(kPort)));
    text += outcome(calls().listen(two, 1));
    calls().close(two);
    const int three = prepare(protocol, second);
    set_option(three, IPPROTO_IP, IP_LOCAL_PORT_RANGE, kPort << 16 | kPort);
    text += outcome(bind_to(three, at(second.host)));
    calls().close(three);
    calls().close(one);
    return text;
}

std::vector<std::string> all_answers() {
    std::vector<std::string> all;
    for (const Protocol protocol : {Protocol::tcp, Protocol::udp}) {
        for (const bool is_listening : {false, true}) {
            for (const Binding& first : all_bindings()) {
                for (const Binding& second : all_bindings()) {
                    const auto name = [](const Binding& binding) {
                        return std::string(binding.host) + " reuse " +
                               std::to_string(binding.reuse_option) +
                               (binding.is_v6_only ? " v6only, " : ", ");
                    };
                    all.push_back(std::string(to_string(protocol)) +
                                  (is_listening ? " listening " : " ") + name(first) +
                                  name(second) + answers(protocol, first, second, is_listening));
                }
            }
        }
    }
    return all;
}

void expect_same(const std::vector<std::string>& real, const std::vector<std::string>& simulated) {
    ASSERT_EQ(real.size(), simulated.size());
    for (std::size_t index = 0; index < real.size(); ++index) {
        EXPECT_EQ(real[index], simulated[index]);
    }
}

void expect_same_on_both(const std::function<std::vector<std::string>()>& ask) {
    std::vector<std::string> simulated;
    {
        const Simulation simulation;
        simulated = ask();
    }
    in_network_namespace([&] { expect_same(ask(), simulated); });
}

TEST(SimulationScenarios, EveryPairOfBinds) { expect_same_on_both(all_answers); }

// How a socket comes to its port before or while it connects.
struct Connecting {
    const char* name;
    Family family;
    const char* host;      // to bind to; null: not at all
    bool binds_by_number;  // and may be reused, so that it can
    bool connects;
    bool listens;
};

constexpr Connecting kConnectings[] = {
    {"by its range", Family::ipv4, nullptr, false, true, false},
    {"mapped, by its range", Family::ipv6, nullptr, false, true, false},
    {"bound without a port", Family::ipv4, "127.0.0.2", false, true, false},
    {"bound by number", Family::ipv4, "127.0.0.1", true, true, false},
    {"bound by number to any", Family::ipv4, "0.0.0.0", true, true, false},
    {"only bound", Family::ipv4, "127.0.0.1", true, false, false},
    {"only bound to another", Family::ipv4, "127.0.0.3", true, false, false},
    {"listening", Family::ipv4, "127.0.0.1", true, false, true},
};

// The port that all of them want.
constexpr std::uint16_t kWanted = 33'444;

std::string take_port(int fd, const Connecting& way, const Address& destination) {
    const int on = way.binds_by_number ? SO_REUSEADDR : 0;
    if (on != 0) {
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    }
    set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    set_option(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, kWanted << 16 | kWanted);
    // A connection that is reset leaves no TIME_WAIT to the next one.
    set_linger(fd, {1, 0});
    std::string text;
    if (way.host != nullptr) {
        const Address host = at(way.host).with_port(way.binds_by_number ? kWanted : 0);
        text += bind_to(fd, host) == 0 ? "bound " : ::strerrorname_np(errno);
    }
    if (way.listens) {
        text += calls().listen(fd, 4) == 0 ? "listens " : ::strerrorname_np(errno);
    }
    if (way.connects) {
        connect_to(fd, way.family == Family::ipv4
                           ? destination
                           : at("::ffff:127.0.0.1").with_port(destination.port()));
        text += ::strerrorname_np(errno);
    }
    return text + ' ' + local_name(fd).to_string() + ' ';
}

std::vector<std::string> all_connects() {
    const int first_server = listener(64, at("127.0.0.1:6001"));
    const int second_server = listener(64, at("127.0.0.1:6002"));
    std::vector<std::string> all;
    for (const Connecting& first : kConnectings) {
        for (const Connecting& second : kConnectings) {
            for (const int server : {first_server, second_server}) {
                const int one = open_tcp(first.family);
                const int two = open_tcp(second.family);
                all.push_back(std::string(first.name) + ", then " + second.name + ": " +
                              take_port(one, first, local_name(first_server)) +
                              take_port(two, second, local_name(server)));
                close_all({two, one});
                for (int child = accept_from(server); child >= 0; child = accept_from(server)) {
                    close_all({child});
                }
            }
        }
    }
    return all;
}

TEST(SimulationScenarios, EveryPairOfConnects) { expect_same_on_both(all_connects); }

}  // namespace
}  // namespace berth::internal
