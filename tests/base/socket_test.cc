// SPDX-License-Identifier: Apache-2.0
#include <berth/socket.h>

#include "src/base/kernel_constants.h"
#include "src/base/system_calls.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

namespace berth {
namespace {

using internal::kernel_calls;
using internal::ScopedSystemCalls;
using internal::SystemCalls;
using testing::HasSubstr;

/// The kernel's calls, of which socket(), getsockopt() or setsockopt() of one option fails.
struct Fault {
    static inline int socket_errno = 0;
    static inline int option_name = -1;
    static inline int option_errno = 0;

    static int socket(int, int, int) {
        errno = socket_errno;
        return -1;
    }
    static int getsockopt(int fd, int level, int name, void* value, socklen_t* size) {
        if (name == option_name) {
            errno = option_errno;
            return -1;
        }
        return kernel_calls().getsockopt(fd, level, name, value, size);
    }
    static int setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
        if (name == option_name) {
            errno = option_errno;
            return -1;
        }
        return kernel_calls().setsockopt(fd, level, name, value, size);
    }
    static int getsockname(int, sockaddr*, socklen_t*) {
        errno = ENOBUFS;
        return -1;
    }
};

SystemCalls failing_socket(int reason) {
    Fault::socket_errno = reason;
    SystemCalls calls = kernel_calls();
    calls.socket = Fault::socket;
    return calls;
}

SystemCalls failing_option(int name, int reason) {
    Fault::option_name = name;
    Fault::option_errno = reason;
    SystemCalls calls = kernel_calls();
    calls.getsockopt = Fault::getsockopt;
    calls.setsockopt = Fault::setsockopt;
    return calls;
}

class SocketOfEachKind : public testing::TestWithParam<std::tuple<Protocol, Family>> {
protected:
    void SetUp() override {
        const auto [protocol, family] = GetParam();
        Result<Socket> opened = Socket::open(protocol, family);
        if (!opened && opened.error().code() == Errc::unsupported) {
            GTEST_SKIP() << opened.error().message();
        }
        ASSERT_TRUE(opened) << opened.error().message();
        socket_ = std::move(*opened);
    }

    /// A socket made elsewhere tells the same of itself as `socket_` remembers.
    void expect_kernel_agrees() {
        const Result<Socket> reread = Socket::adopt(Descriptor(::dup(socket_.fd())));
        ASSERT_TRUE(reread) << reread.error().message();
        EXPECT_EQ(reread->options().reuse_address, socket_.options().reuse_address);
        EXPECT_EQ(reread->options().reuse_port, socket_.options().reuse_port);
        EXPECT_EQ(reread->options().v6_only, socket_.options().v6_only);
        EXPECT_EQ(reread->options().bind_address_no_port, socket_.options().bind_address_no_port);
        EXPECT_EQ(reread->options().local_port_range, socket_.options().local_port_range);
    }

    Socket socket_;
};

TEST_P(SocketOfEachKind, FreshSocketKnowsTheKernelsDefaults) {
    const auto [protocol, family] = GetParam();
    EXPECT_TRUE(socket_.is_open());
    EXPECT_EQ(socket_.protocol(), protocol);
    EXPECT_EQ(socket_.family(), family);
    EXPECT_NE(::fcntl(socket_.fd(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_EQ(::fcntl(socket_.fd(), F_GETFL) & O_NONBLOCK, 0);
    expect_kernel_agrees();
}

TEST_P(SocketOfEachKind, AdoptKnowsProtocolAndFamily) {
    const auto [protocol, family] = GetParam();
    const Result<Socket> adopted = Socket::adopt(socket_.release());
    ASSERT_TRUE(adopted) << adopted.error().message();
    EXPECT_EQ(adopted->protocol(), protocol);
    EXPECT_EQ(adopted->family(), family);
    EXPECT_FALSE(socket_.is_open());
}

TEST_P(SocketOfEachKind, OptionsThatAreSetAreRememberedAsTheKernelHasThem) {
    ASSERT_TRUE(socket_.set_reuse_address(true));
    ASSERT_TRUE(socket_.set_reuse_port(true));
    ASSERT_TRUE(socket_.set_bind_address_no_port(true));
    EXPECT_TRUE(socket_.options().reuse_address);
    EXPECT_TRUE(socket_.options().reuse_port);
    EXPECT_TRUE(socket_.options().bind_address_no_port);
    expect_kernel_agrees();
    ASSERT_TRUE(socket_.set_reuse_address(false));
    ASSERT_TRUE(socket_.set_reuse_port(false));
    ASSERT_TRUE(socket_.set_bind_address_no_port(false));
    EXPECT_FALSE(socket_.options().reuse_address);
    expect_kernel_agrees();
}

TEST_P(SocketOfEachKind, PortRangeIsSetReadBackAndCleared) {
    const PortRange range = {40000, 65535};
    const Result<void> set = socket_.set_local_port_range(range);
    if (!set && set.error().system_errno() == ENOPROTOOPT) {
        GTEST_SKIP() << set.error().message();
    }
    ASSERT_TRUE(set) << set.error().message();
    EXPECT_EQ(socket_.options().local_port_range, range);
    expect_kernel_agrees();
    ASSERT_TRUE(socket_.set_local_port_range({0, 0}));
    expect_kernel_agrees();
}

TEST_P(SocketOfEachKind, InvertedPortRangeIsRefusedAndChangesNothing) {
    const Result<void> set = socket_.set_local_port_range({60000, 50000});
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code(), Errc::invalid_argument);
    EXPECT_EQ(socket_.options().local_port_range, (PortRange{0, 0}));
}

TEST_P(SocketOfEachKind, V6OnlyBelongsToIpv6) {
    const Result<void> set = socket_.set_v6_only(true);
    if (socket_.family() == Family::ipv4) {
        ASSERT_FALSE(set);
        EXPECT_EQ(set.error().code(), Errc::invalid_argument);
        return;
    }
    ASSERT_TRUE(set) << set.error().message();
    EXPECT_TRUE(socket_.options().v6_only);
    expect_kernel_agrees();
}

TEST_P(SocketOfEachKind, NonblockingIsSwitchedOnAndOff) {
    ASSERT_TRUE(socket_.set_nonblocking(true));
    EXPECT_NE(::fcntl(socket_.fd(), F_GETFL) & O_NONBLOCK, 0);
    ASSERT_TRUE(socket_.set_nonblocking(false));
    EXPECT_EQ(::fcntl(socket_.fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_P(SocketOfEachKind, LocalAddressIsTheWildcardBeforeABind) {
    const Result<Address> address = socket_.local_address();
    ASSERT_TRUE(address) << address.error().message();
    EXPECT_EQ(*address, Address::any(socket_.family()));
}

INSTANTIATE_TEST_SUITE_P(Kinds, SocketOfEachKind,
                         testing::Combine(testing::Values(Protocol::udp, Protocol::tcp),
                                          testing::Values(Family::ipv4, Family::ipv6)),
                         [](const auto& instance) {
                             return std::string(to_string(std::get<0>(instance.param))) + "_" +
                                    std::string(to_string(std::get<1>(instance.param)));
                         });

TEST(Socket, LocalAddressAfterABindHasThePort) {
    const Socket socket = *udp_socket(Family::ipv4);
    const Address local = Address::loopback(Family::ipv4);
    ASSERT_EQ(::bind(socket.fd(), local.data(), local.size()), 0);
    const Result<Address> address = socket.local_address();
    ASSERT_TRUE(address);
    EXPECT_NE(address->port(), 0);
    EXPECT_EQ(address->with_port(0), local);
}

TEST(Socket, OptionSetBehindItsBackIsSeenAfterReload) {
    Socket socket = *tcp_socket(Family::ipv4);
    const int on = 1;
    ASSERT_EQ(::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    EXPECT_FALSE(socket.options().reuse_address);
    ASSERT_TRUE(socket.reload_options());
    EXPECT_TRUE(socket.options().reuse_address);
}

TEST(Socket, AdoptRefusesWhatIsNoUdpOrTcpSocket) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
    const Descriptor write_end(pipe_ends[1]);
    const Result<Socket> pipe = Socket::adopt(Descriptor(pipe_ends[0]));
    ASSERT_FALSE(pipe);
    EXPECT_EQ(pipe.error().code(), Errc::invalid_argument);

    const Result<Socket> local =
        Socket::adopt(Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
    ASSERT_FALSE(local);
    EXPECT_EQ(local.error().code(), Errc::invalid_argument);
    EXPECT_FALSE(Socket::adopt(Descriptor()));
}

TEST(Socket, EmptySocketAnswersWithAnError) {
    Socket socket;
    EXPECT_FALSE(socket.is_open());
    EXPECT_EQ(socket.set_reuse_address(true).error().code(), Errc::invalid_argument);
    EXPECT_EQ(socket.set_nonblocking(true).error().code(), Errc::invalid_argument);
    EXPECT_EQ(socket.local_address().error().code(), Errc::invalid_argument);
}

TEST(SocketFault, Ipv6SwitchedOffIsUnsupportedAndSaysWhatToDo) {
    const SystemCalls calls = failing_socket(EAFNOSUPPORT);
    const ScopedSystemCalls scope(calls);
    const Result<Socket> socket = udp_socket(Family::ipv6);
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().code(), Errc::unsupported);
    EXPECT_EQ(socket.error().message(),
              "open udp ipv6 socket: not supported here (errno 97): IPv6 is switched off; use "
              "IPv4, or boot the kernel without ipv6.disable=1");
}

TEST(SocketFault, RunningOutOfDescriptorsIsAValue) {
    const SystemCalls calls = failing_socket(EMFILE);
    const ScopedSystemCalls scope(calls);
    const Result<Socket> socket = tcp_socket(Family::ipv4);
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().code(), Errc::descriptors_exhausted);
    EXPECT_THAT(socket.error().message(), HasSubstr("open tcp ipv4 socket"));
}

TEST(SocketFault, KernelWithoutPortRangeIsToldApartFromAnError) {
    const SystemCalls calls = failing_option(IP_LOCAL_PORT_RANGE, ENOPROTOOPT);
    const ScopedSystemCalls scope(calls);
    Result<Socket> socket = Socket::adopt(udp_socket(Family::ipv4)->release());
    ASSERT_TRUE(socket) << socket.error().message();
    EXPECT_EQ(socket->options().local_port_range, (PortRange{0, 0}));
    const Result<void> set = socket->set_local_port_range({40000, 40000});
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code(), Errc::unsupported);
    EXPECT_THAT(set.error().message(), HasSubstr("6.3"));
    EXPECT_EQ(socket->options().local_port_range, (PortRange{0, 0}));
}

TEST(SocketFault, OptionThatCannotBeReadIsAnErrorThatNamesIt) {
    const SystemCalls calls = failing_option(IP_BIND_ADDRESS_NO_PORT, ENOBUFS);
    const ScopedSystemCalls scope(calls);
    const Result<Socket> socket = Socket::adopt(udp_socket(Family::ipv4)->release());
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().code(), Errc::out_of_memory);
    EXPECT_THAT(socket.error().message(), HasSubstr("IP_BIND_ADDRESS_NO_PORT of fd "));
}

TEST(SocketFault, OptionThatCannotBeSetKeepsItsOldValue) {
    Socket socket = *udp_socket(Family::ipv4);
    const SystemCalls calls = failing_option(SO_REUSEPORT, EPERM);
    const ScopedSystemCalls scope(calls);
    const Result<void> set = socket.set_reuse_port(true);
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code(), Errc::permission_denied);
    EXPECT_FALSE(socket.options().reuse_port);
}

TEST(SocketFault, LocalAddressPassesTheKernelsRefusalOn) {
    const Socket socket = *udp_socket(Family::ipv4);
    SystemCalls calls = kernel_calls();
    calls.getsockname = Fault::getsockname;
    const ScopedSystemCalls scope(calls);
    EXPECT_EQ(socket.local_address().error().code(), Errc::out_of_memory);
}

TEST(ScopedSystemCalls, PutsTheKernelsCallsBack) {
    {
        const SystemCalls calls = failing_socket(EMFILE);
        const ScopedSystemCalls scope(calls);
        EXPECT_FALSE(udp_socket(Family::ipv4));
    }
    EXPECT_TRUE(udp_socket(Family::ipv4));
}

}  // namespace
}  // namespace berth
