// SPDX-License-Identifier: Apache-2.0

// That what one may ask for when a socket is opened reaches the kernel.

#include "src/base/system_calls.h"
#include "tests/conformance/engines.h"

#include <berth/datagram_socket.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

namespace berth::test {
namespace {

class SocketOptionsTest : public EngineTest {
protected:
    void SetUp() override {
        need_kernel("what options do is the kernel's");
        if (!IsSkipped()) EngineTest::SetUp();
    }

    static int option_of(int fd, int level, int name) {
        int value = -1;
        socklen_t size = sizeof value;
        EXPECT_EQ(internal::calls().getsockopt(fd, level, name, &value, &size), 0);
        return value;
    }
    static bool has_no_delay(int fd) { return option_of(fd, IPPROTO_TCP, TCP_NODELAY) != 0; }
    Stream accept_one(Listener& listener) {
        std::array<int, 1> accepted{};
        Watched<AcceptOperation> accept;
        listener.accept(accept, accepted);
        run_until([&] { return accept.completion_count == 1; });
        return listener.take(accepted[0]).value();
    }
    template <class Socket, class Options>
    bool can_share(const Socket& first, const Options& options) {
        const Result<Socket> second = Socket::open(loop(), *first.local_endpoint(), options);
        EXPECT_TRUE(second || second.error().code() == Errc::port_in_use);
        return second.has_value();
    }
};

TEST_P(SocketOptionsTest, NoDelay) {
    for (const bool is_on : {true, false}) {
        Listener listener =
            Listener::open(loop(), Address::loopback(Family::ipv4), {.no_delay = is_on}).value();
        Stream stream =
            Stream::open(loop(), *listener.local_endpoint(), {.no_delay = is_on}).value();
        EXPECT_EQ(has_no_delay(stream.fd()), is_on);
        Watched<ConnectOperation> connect;
        stream.connect(connect);
        EXPECT_EQ(has_no_delay(accept_one(listener).fd()), is_on);
        run_until([&] { return connect.completion_count == 1; });
        ASSERT_TRUE(stream.set_no_delay(!is_on).has_value());
        EXPECT_EQ(has_no_delay(stream.fd()), !is_on);
    }
}

TEST_P(SocketOptionsTest, KeepAlive) {
    Pair pair = connect_pair();
    for (const bool is_on : {true, false}) {
        ASSERT_TRUE(pair.client.set_keep_alive(is_on).has_value());
        EXPECT_EQ(option_of(pair.client.fd(), SOL_SOCKET, SO_KEEPALIVE) != 0, is_on);
    }
}

TEST_P(SocketOptionsTest, ListenersShareAPortOnlyWhenTheyAskFor) {
    const Endpoint any_port = Address::loopback(Family::ipv4);
    const Listener alone = Listener::open(loop(), any_port).value();
    EXPECT_FALSE(can_share(alone, ListenOptions{.reuse_port = true}));
    const Listener sharing = Listener::open(loop(), any_port, {.reuse_port = true}).value();
    EXPECT_FALSE(can_share(sharing, ListenOptions{}));
    EXPECT_TRUE(can_share(sharing, ListenOptions{.reuse_port = true}));
    EXPECT_NE(option_of(alone.fd(), SOL_SOCKET, SO_REUSEADDR), 0);
    const Listener strict = Listener::open(loop(), any_port, {.reuse_address = false}).value();
    EXPECT_EQ(option_of(strict.fd(), SOL_SOCKET, SO_REUSEADDR), 0);
}

TEST_P(SocketOptionsTest, DatagramSocketsShareAPortOnlyWhenTheyAskFor) {
    const Endpoint any_port = Address::loopback(Family::ipv4);
    const DatagramSocket alone = DatagramSocket::open(loop(), any_port).value();
    EXPECT_FALSE(can_share(alone, DatagramOptions{}));
    for (const DatagramOptions& options :
         {DatagramOptions{.reuse_address = true}, DatagramOptions{.reuse_port = true}}) {
        const DatagramSocket sharing = DatagramSocket::open(loop(), any_port, options).value();
        EXPECT_FALSE(can_share(sharing, DatagramOptions{}));
        EXPECT_TRUE(can_share(sharing, options));
    }
}

TEST_P(SocketOptionsTest, AnIpv6WildcardMayLeaveIpv4Alone) {
    const Endpoint any_port = Address::any(Family::ipv6);
    for (const bool is_on : {true, false}) {
        const Listener listener = Listener::open(loop(), any_port, {.v6_only = is_on}).value();
        EXPECT_EQ(option_of(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY) != 0, is_on);
        const DatagramSocket socket =
            DatagramSocket::open(loop(), any_port, {.v6_only = is_on}).value();
        EXPECT_EQ(option_of(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY) != 0, is_on);
    }
}

// The kernel doubles them, for what it keeps itself.
TEST_P(SocketOptionsTest, BufferSizes) {
    constexpr int kSize = 30'000;
    const DatagramSocket socket =
        DatagramSocket::open(loop(), Address::loopback(Family::ipv4),
                             {.receive_buffer_size = kSize, .send_buffer_size = 2 * kSize})
            .value();
    EXPECT_EQ(option_of(socket.fd(), SOL_SOCKET, SO_RCVBUF), 2 * kSize);
    EXPECT_EQ(option_of(socket.fd(), SOL_SOCKET, SO_SNDBUF), 4 * kSize);
}

BERTH_OVER_EVERY_ENGINE_OF(SocketOptionsTest);

}  // namespace
}  // namespace berth::test
