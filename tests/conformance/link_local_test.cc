// SPDX-License-Identifier: Apache-2.0

// IPv6 link-local addresses: they mean something only together with an interface, the scope.
//
//   ┌ network namespace of the test ─────────────────┐
//   │  lo up · link0 up, fe80::1/64                  │
//   └────────────────────────────────────────────────┘

#include "tests/conformance/engines.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <berth/datagram_socket.h>
#include <berth/descriptor.h>

#include <linux/ipv6.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace berth::test {
namespace {

constexpr const char* kLinkName = "link0";

/// One rtnetlink message, put together piece by piece.
class LinkRequest {
public:
    LinkRequest() {
        header_.nlmsg_type = RTM_NEWLINK;
        header_.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        ifinfomsg link{};
        link.ifi_flags = IFF_UP;
        link.ifi_change = IFF_UP;
        add(&link, sizeof link);
    }
    void add_attribute(unsigned short type, std::string_view text) {
        const rtattr attribute = {static_cast<unsigned short>(sizeof(rtattr) + text.size()), type};
        add(&attribute, sizeof attribute);
        add(text.data(), text.size());
    }
    /// 0, or an errno.
    int send() {
        header_.nlmsg_len = static_cast<std::uint32_t>(sizeof header_ + body_.size());
        body_.insert(0, reinterpret_cast<const char*>(&header_), sizeof header_);
        const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
        struct {
            nlmsghdr header;
            nlmsgerr error;
            std::array<char, 512> rest;
        } answer{};
        if (::send(socket.get(), body_.data(), body_.size(), 0) < 0 ||
            ::recv(socket.get(), &answer, sizeof answer, 0) < 0) {
            return errno;
        }
        return -answer.error.error;
    }

private:
    void add(const void* data, std::size_t size) {
        body_.append(static_cast<const char*>(data), size);
        body_.append(NLMSG_ALIGN(size) - size, '\0');
    }

    nlmsghdr header_{};
    std::string body_;
};

int make_link_of(std::string_view kind) {
    std::string information(sizeof(rtattr), '\0');
    const rtattr header = {static_cast<unsigned short>(sizeof(rtattr) + kind.size()),
                           IFLA_INFO_KIND};
    std::memcpy(information.data(), &header, sizeof header);
    information += kind;
    LinkRequest request;
    request.add_attribute(IFLA_IFNAME, std::string_view(kLinkName, std::strlen(kLinkName) + 1));
    request.add_attribute(IFLA_LINKINFO, information);
    return request.send();
}

/// An interface that is up, of a kind without neighbours: nobody is asked whether an
/// address is taken.
int make_link() {
    int reason = 0;
    for (const char* kind : {"dummy", "ifb"}) {
        reason = make_link_of(kind);
        if (reason != EOPNOTSUPP) {
            break;
        }
    }
    return reason;
}

/// The kernel puts an address in place a little later; its route comes last.
bool is_in_place(const Address& address) {
    std::string digits;
    for (const std::uint8_t byte : address.bytes()) {
        digits += "0123456789abcdef"[byte >> 4];
        digits += "0123456789abcdef"[byte & 15];
    }
    std::ifstream routes("/proc/net/ipv6_route");
    const std::string text((std::istreambuf_iterator<char>(routes)), {});
    return text.find(digits + " 80 ") != std::string::npos;
}

int add_address(unsigned link, const Address& address) {
    const Descriptor socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    in6_ifreq request{};
    const auto bytes = address.bytes();
    std::memcpy(&request.ifr6_addr, bytes.data(), bytes.size());
    request.ifr6_prefixlen = 64;
    request.ifr6_ifindex = static_cast<int>(link);
    return ::ioctl(socket.get(), SIOCSIFADDR, &request) == 0 ? 0 : errno;
}

class LinkLocalTest : public EngineTest {
protected:
    void SetUp() override { need_kernel("the simulated host has no interfaces"); }

    /// Runs `body` where fe80::1%link0 is, with ports of the kernel, then of tables.
    void at_link(const std::function<void()>& body) {
        in_network_namespace([&] {
            if (const int reason = make_link(); reason != 0) {
                GTEST_SKIP() << "no interface can be made: " << std::strerror(reason);
            }
            link_ = ::if_nametoindex(kLinkName);
            ASSERT_NE(link_, 0U);
            ASSERT_EQ(add_address(link_, address("fe80::1")), 0) << std::strerror(errno);
            ASSERT_TRUE(poll_until([] { return is_in_place(address("fe80::1")); }));
            local_ = address("fe80::1%link0");
            ASSERT_EQ(local_->address().scope_id(), link_);
            start();
            body();
            PortTable tcp = new_table(Protocol::tcp);
            PortTable udp = new_table(Protocol::udp);
            start({.tcp_ports = &tcp, .udp_ports = &udp});
            body();
        });
    }
    void expect_at_link(const Result<Endpoint>& endpoint) const {
        ASSERT_TRUE(succeeded(endpoint));
        EXPECT_EQ(endpoint->address().scope_id(), link_) << endpoint->to_string();
        EXPECT_EQ(endpoint->address().bytes(), local_->address().bytes());
    }

    unsigned link_ = 0;
    std::optional<Endpoint> local_;
};

TEST_P(LinkLocalTest, StreamsKnowTheirInterface) {
    at_link([&] {
        auto [client, server] = connect_pair_at(*local_);
        for (const Stream* stream : {&client, &server}) {
            expect_at_link(stream->local_endpoint());
            expect_at_link(stream->remote_endpoint());
        }
        EXPECT_EQ(*client.remote_endpoint(), *server.local_endpoint());
        ASSERT_TRUE(client.write(bytes_of("over the link")).has_value());
        EXPECT_EQ(text_of(receive_exactly(server, 13)), "over the link");
        client.reset();
    });
}

TEST_P(LinkLocalTest, StreamsConnectFromIt) {
    at_link([&] {
        Listener listener = Listener::open(loop(), *local_).value();
        expect_at_link(listener.local_endpoint());
        Stream client =
            Stream::open(loop(), *listener.local_endpoint(), {.local = *local_}).value();
        Watched<ConnectOperation> connect;
        client.connect(connect);
        run_until([&] { return connect.completion_count == 1; });
        EXPECT_FALSE(connect.has_failed()) << connect.error().message();
        expect_at_link(client.local_endpoint());
        client.reset();
    });
}

TEST_P(LinkLocalTest, DatagramsTellTheInterfaceTheyCameBy) {
    at_link([&] {
        DatagramSocket server = DatagramSocket::open(loop(), *local_).value();
        expect_at_link(server.local_endpoint());
        DatagramSocket client = DatagramSocket::open_to(loop(), *server.local_endpoint()).value();
        expect_at_link(client.local_endpoint());
        std::array<std::byte, 16> buffer{};
        for (int i = 0; i < 2; ++i) {
            Watched<SendToOperation> send;
            client.send(send, bytes_of("hello"));
            run_until([&] { return send.completion_count == 1; });
            EXPECT_FALSE(send.has_failed()) << send.error().message();
        }
        Watched<ReceiveFromOperation> receive;
        server.receive(receive, buffer);
        run_until([&] { return receive.completion_count == 1; });
        EXPECT_EQ(receive.from, *client.local_endpoint()) << receive.from.to_string();
        std::array<Datagram, 1> datagrams;
        datagrams[0].buffer = buffer;
        Watched<ReceiveBatchOperation> batch;
        server.receive(batch, datagrams);
        run_until([&] { return batch.completion_count == 1; });
        EXPECT_EQ(datagrams[0].peer, client.local_endpoint()->address());
        // And the answer finds its way.
        Watched<SendToOperation> answer;
        server.send(answer, bytes_of("answer"), receive.from);
        Watched<ReceiveOperation> answered;
        client.receive(answered, buffer);
        run_until([&] { return answer.completion_count == 1 && answered.completion_count == 1; });
        EXPECT_EQ(text_of(std::span(buffer).first(answered.count())), "answer");
    });
}

TEST_P(LinkLocalTest, WithoutAnInterfaceItIsAnError) {
    at_link([&] {
        const Address unscoped = address("fe80::1");
        const Endpoint at_port = unscoped.with_port(9);
        EXPECT_TRUE(failed_with(Listener::open(loop(), unscoped), Errc::invalid_argument));
        EXPECT_TRUE(failed_with(DatagramSocket::open(loop(), unscoped), Errc::invalid_argument));
        EXPECT_TRUE(failed_with(DatagramSocket::open_to(loop(), at_port), Errc::invalid_argument));
        Stream stream = Stream::open(loop(), at_port).value();
        Watched<ConnectOperation> connect;
        stream.connect(connect);
        run_until([&] { return connect.completion_count == 1; });
        ASSERT_TRUE(connect.has_failed());
        EXPECT_EQ(connect.error().code(), Errc::invalid_argument);
        EXPECT_THAT(connect.error().message(), testing::HasSubstr("[fe80::1]:9"));
    });
}

BERTH_OVER_EVERY_ENGINE_OF(LinkLocalTest);

}  // namespace
}  // namespace berth::test
