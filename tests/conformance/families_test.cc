// SPDX-License-Identifier: Apache-2.0

// Addresses that do not fit the family of their socket: each is an error that names the address,
// and the socket goes on working.

#include "tests/conformance/engines.h"
#include "tests/support/port_helpers.h"

#include <berth/datagram_socket.h>

#include <array>
#include <optional>
#include <string>

namespace berth::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class FamiliesTest : public EngineTest {
protected:
    // The kernel says EINVAL or EAFNOSUPPORT, as the families are.
    static void expect_misfit(const Error& error, const std::string& named = {}) {
        EXPECT_THAT(error.code(), AnyOf(Errc::invalid_argument, Errc::unsupported))
            << error.message();
        EXPECT_THAT(error.message(), HasSubstr(named));
    }
    DatagramSocket open_at_loopback(Family family) {
        return DatagramSocket::open(loop(), Address::loopback(family), {.v6_only = true}).value();
    }
    Error send_error(DatagramSocket& socket, const Endpoint& to) {
        Watched<SendToOperation> send;
        socket.send(send, bytes_of("lost"), to);
        run_until([&] { return send.completion_count == 1; });
        EXPECT_TRUE(send.has_failed());
        return send.error();
    }
    /// `socket` still sends to one of its own family, and nothing else has been sent.
    void expect_works(DatagramSocket& socket, Family family) {
        DatagramSocket peer = open_at_loopback(family);
        Watched<SendToOperation> send;
        socket.send(send, bytes_of("found"), *peer.local_endpoint());
        std::array<std::byte, 16> buffer{};
        Watched<ReceiveFromOperation> receive;
        peer.receive(receive, buffer);
        run_until([&] { return receive.completion_count == 1 && send.completion_count == 1; });
        EXPECT_EQ(text_of(std::span(buffer).first(receive.count())), "found");
        EXPECT_EQ(receive.from, *socket.local_endpoint());
    }

    const Endpoint v4_ = Address::loopback(Family::ipv4);
    const Endpoint v6_ = Address::loopback(Family::ipv6);
};

TEST_P(FamiliesTest, StreamFromAnAddressOfAnotherFamily) {
    Listener server = Listener::open(loop(), v4_).value();
    Listener server6 = Listener::open(loop(), v6_).value();
    Listener unix_server = Listener::open(loop(), unix_name()).value();
    const std::array<std::pair<Endpoint, Endpoint>, 6> misfits = {{
        {*server.local_endpoint(), v6_},
        {*server.local_endpoint(), unix_name()},
        {*server6.local_endpoint(), v4_},
        {*server6.local_endpoint(), unix_name()},
        {unix_name(), v4_},
        {unix_name(), v6_},
    }};
    for (const auto& [remote, local] : misfits) {
        const Result<Stream> stream = Stream::open(loop(), remote, {.local = local});
        ASSERT_FALSE(stream.has_value()) << remote.to_string() << " from " << local.to_string();
        EXPECT_EQ(stream.error().code(), Errc::invalid_argument);
        EXPECT_THAT(stream.error().message(), HasSubstr(local.to_string()));
    }
    EXPECT_EQ(loop().statistics().socket_count, 3U);
}

TEST_P(FamiliesTest, StreamFromAnAddressOfAnotherFamilyWithPortsOfATable) {
    if (is_simulated()) {
        GTEST_SKIP() << "a port table asks the real kernel what is in use";
    }
    PortTable ports = new_table(Protocol::tcp);
    start({.tcp_ports = &ports});
    const Endpoint remote = Address::loopback(Family::ipv4, 9);
    for (const Endpoint& local : {v6_, unix_name()}) {
        const Result<Stream> stream = Stream::open(loop(), remote, {.local = local});
        ASSERT_FALSE(stream.has_value()) << "the address was ignored";
        EXPECT_EQ(stream.error().code(), Errc::invalid_argument);
        EXPECT_THAT(stream.error().message(), HasSubstr(local.to_string()));
    }
}

TEST_P(FamiliesTest, DatagramsToAnotherFamily) {
    DatagramSocket socket = open_at_loopback(Family::ipv4);
    expect_misfit(send_error(socket, Address::loopback(Family::ipv6, 9)));
    expect_misfit(send_error(socket, unix_name()));
    expect_works(socket, Family::ipv4);
}

TEST_P(FamiliesTest, BatchStopsAtTheFirstOfAnotherFamily) {
    DatagramSocket socket = open_at_loopback(Family::ipv4);
    DatagramSocket peer = open_at_loopback(Family::ipv4);
    std::array<std::byte, 3> text = {std::byte{'o'}, std::byte{'n'}, std::byte{'e'}};
    std::array<Datagram, 3> datagrams;
    for (Datagram& datagram : datagrams) {
        datagram.buffer = text;
        datagram.has_peer = true;
        datagram.peer = peer.local_endpoint()->address();
    }
    datagrams[1].peer = Address::loopback(Family::ipv6, 9);
    Watched<SendBatchOperation> send;
    socket.send(send, datagrams);
    run_until([&] { return send.completion_count == 1; });
    ASSERT_TRUE(send.has_failed());
    expect_misfit(send.error());
    EXPECT_EQ(send.sent, 1U);
    std::array<std::byte, 16> buffer{};
    Watched<ReceiveFromOperation> receive;
    peer.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(text_of(std::span(buffer).first(receive.count())), "one");
    expect_works(socket, Family::ipv4);
}

TEST_P(FamiliesTest, DatagramsFromIpv6OnlyToIpv4) {
    DatagramSocket socket = open_at_loopback(Family::ipv6);
    const Error error = send_error(socket, Address::loopback(Family::ipv4, 9));
    EXPECT_THAT(error.code(), AnyOf(Errc::unreachable, Errc::invalid_argument, Errc::unsupported))
        << error.message();
    expect_works(socket, Family::ipv6);
}

TEST_P(FamiliesTest, ConnectedDatagramSocket) {
    DatagramSocket socket = open_at_loopback(Family::ipv4);
    for (const Endpoint& remote : {Endpoint(Address::loopback(Family::ipv6, 9)), unix_name()}) {
        const Result<void> connected = socket.connect(remote);
        ASSERT_FALSE(connected.has_value());
        expect_misfit(connected.error(), remote.to_string());
    }
    expect_works(socket, Family::ipv4);
}

TEST_P(FamiliesTest, UnixDatagramSocket) {
    const Endpoint name = unix_name();
    DatagramSocket socket = DatagramSocket::open(loop(), name).value();
    const Endpoint internet = Address::loopback(Family::ipv4, 9);
    expect_misfit(send_error(socket, internet));
    const Result<void> connected = socket.connect(internet);
    ASSERT_FALSE(connected.has_value());
    expect_misfit(connected.error(), internet.to_string());
    Watched<SendToOperation> send;
    socket.send(send, bytes_of("to myself"), name);
    std::array<std::byte, 16> buffer{};
    Watched<ReceiveFromOperation> receive;
    socket.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 1 && send.completion_count == 1; });
    EXPECT_EQ(text_of(std::span(buffer).first(receive.count())), "to myself");
    EXPECT_EQ(receive.from, name);
}

BERTH_OVER_EVERY_ENGINE_OF(FamiliesTest);

}  // namespace
}  // namespace berth::test
