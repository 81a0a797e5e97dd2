// SPDX-License-Identifier: Apache-2.0
#include "tests/support/port_helpers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace berth::test {

Address address(const char* text) { return Address::parse(text).value(); }

Socket new_socket(Protocol protocol, Family family, bool v6_only) {
    auto socket = Socket::open(protocol, family);
    EXPECT_TRUE(succeeded(socket));
    if (family == Family::ipv6) {
        EXPECT_TRUE(succeeded(socket->set_v6_only(v6_only)));
    }
    return std::move(socket).value();
}

PortTable new_table(Protocol protocol, const TableOptions& options) {
    auto table = PortTable::create(protocol, options);
    EXPECT_TRUE(succeeded(table));
    return std::move(table).value();
}

Descriptor stranger(Protocol protocol, const Address& local, bool v6_only) {
    const int domain = local.family() == Family::ipv4 ? AF_INET : AF_INET6;
    const int type = protocol == Protocol::udp ? SOCK_DGRAM : SOCK_STREAM;
    Descriptor socket(::socket(domain, type | SOCK_CLOEXEC, 0));
    const int value = v6_only ? 1 : 0;
    if (domain == AF_INET6) {
        ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &value, sizeof value);
    }
    if (::bind(socket.get(), local.data(), local.size()) != 0) {
        socket.reset();
    }
    return socket;
}

Descriptor listener(const Address& local, int backlog) {
    Descriptor socket = stranger(Protocol::tcp, local);
    EXPECT_EQ(::listen(socket.get(), backlog), 0) << local.to_string() << std::strerror(errno);
    return socket;
}

std::vector<Descriptor> strangers(Protocol protocol, const Address& any_port, PortRange range) {
    std::vector<Descriptor> sockets;
    for (unsigned port = range.first; port <= range.last; ++port) {
        const Address local = any_port.with_port(static_cast<std::uint16_t>(port));
        sockets.push_back(stranger(protocol, local));
        EXPECT_TRUE(sockets.back().is_open()) << local.to_string() << std::strerror(errno);
    }
    return sockets;
}

Address local_of(int fd) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* generic = reinterpret_cast<sockaddr*>(&storage);
    EXPECT_EQ(::getsockname(fd, generic, &size), 0) << std::strerror(errno);
    return Address::from(generic, size).value();
}

int option_of(int fd, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0) << std::strerror(errno);
    return value;
}

void write_setting(const std::string& name, const std::string& text) {
    const Descriptor file(::open(("/proc/sys/net/" + name).c_str(), O_WRONLY | O_CLOEXEC));
    const ssize_t size = ::write(file.get(), text.data(), text.size());
    EXPECT_EQ(size, static_cast<ssize_t>(text.size())) << name << ": " << std::strerror(errno);
}

}  // namespace berth::test
