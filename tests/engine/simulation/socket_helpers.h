// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of the simulation share: short forms of calls through berth's table.

#include "src/base/system_calls.h"

#include <berth/address.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>

/// A call that must fail with this errno.
#define EXPECT_FAILS(error, ...)                                                  \
    do {                                                                          \
        errno = 0;                                                                \
        EXPECT_EQ((__VA_ARGS__), -1);                                             \
        EXPECT_EQ(errno, error) << ::strerrorname_np(errno) << " is not " #error; \
    } while (false)

namespace berth::test {

using internal::calls;
using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""ns;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""us;

inline Address at(const char* text) { return Address::parse(text).value(); }

inline int open_tcp(Family family = Family::ipv4) {
    return calls().socket(family == Family::ipv4 ? AF_INET : AF_INET6,
                          SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}
inline int open_udp(Family family = Family::ipv4) {
    return calls().socket(family == Family::ipv4 ? AF_INET : AF_INET6,
                          SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

inline int bind_to(int fd, const Address& address) {
    return calls().bind(fd, address.data(), address.size());
}
inline int connect_to(int fd, const Address& address) {
    return calls().connect(fd, address.data(), address.size());
}

inline Address local_name(int fd) {
    sockaddr_in6 storage{};
    socklen_t size = sizeof(storage);
    auto* generic = reinterpret_cast<sockaddr*>(&storage);
    EXPECT_EQ(calls().getsockname(fd, generic, &size), 0) << std::strerror(errno);
    return Address::from(generic, size).value();
}
inline Address peer_name(int fd) {
    sockaddr_in6 storage{};
    socklen_t size = sizeof(storage);
    auto* generic = reinterpret_cast<sockaddr*>(&storage);
    EXPECT_EQ(calls().getpeername(fd, generic, &size), 0) << std::strerror(errno);
    return Address::from(generic, size).value();
}

/// Bound to 127.0.0.1 and a port of the kernel's choice.
inline int bound_udp() {
    const int fd = open_udp();
    EXPECT_EQ(bind_to(fd, at("127.0.0.1")), 0) << std::strerror(errno);
    return fd;
}
inline int listener(int backlog = 16, const Address& address = at("127.0.0.1")) {
    const int fd = open_tcp(address.family());
    EXPECT_EQ(bind_to(fd, address), 0) << std::strerror(errno);
    EXPECT_EQ(calls().listen(fd, backlog), 0) << std::strerror(errno);
    return fd;
}
inline int accept_from(int fd) { return calls().accept4(fd, nullptr, nullptr, SOCK_NONBLOCK); }

inline int set_option(int fd, int level, int name, int value) {
    return calls().setsockopt(fd, level, name, &value, sizeof(value));
}
inline int get_option(int fd, int level, int name) {
    int value = -1;
    socklen_t size = sizeof(value);
    EXPECT_EQ(calls().getsockopt(fd, level, name, &value, &size), 0) << std::strerror(errno);
    return value;
}
inline int error_of(int fd) { return get_option(fd, SOL_SOCKET, SO_ERROR); }
inline int set_linger(int fd, linger value) {
    return calls().setsockopt(fd, SOL_SOCKET, SO_LINGER, &value, sizeof(value));
}

inline ssize_t send_text(int fd, std::string_view text, int flags = MSG_NOSIGNAL) {
    return calls().send(fd, text.data(), text.size(), flags);
}
inline ssize_t send_text_to(int fd, std::string_view text, const Address& to) {
    return calls().sendto(fd, text.data(), text.size(), 0, to.data(), to.size());
}
/// What came; "EAGAIN" and the like for a failure.
inline std::string receive(int fd, std::size_t size = 100'000, int flags = 0) {
    std::string text(size, '\0');
    const ssize_t count = calls().recv(fd, text.data(), size, flags);
    if (count < 0) {
        return ::strerrorname_np(errno);
    }
    text.resize(std::min(size, static_cast<std::size_t>(count)));
    return text;
}
/// Until there is nothing more now, or the end.
inline std::string receive_all(int fd) {
    std::string all;
    std::array<char, 4096> part;
    ssize_t count = 0;
    while ((count = calls().recv(fd, part.data(), part.size(), 0)) > 0) {
        all.append(part.data(), static_cast<std::size_t>(count));
    }
    return all;
}
/// Sends until the buffer is full; how much that was.
inline std::size_t fill(int fd) {
    const std::string block(4096, 'x');
    std::size_t total = 0;
    ssize_t count = 0;
    while ((count = send_text(fd, block)) > 0) total += static_cast<std::size_t>(count);
    EXPECT_EQ(errno, EAGAIN);
    return total;
}

inline timespec to_time(std::chrono::nanoseconds duration) {
    return {static_cast<time_t>(duration.count() / 1'000'000'000),
            static_cast<long>(duration.count() % 1'000'000'000)};
}
/// What poll() says within the time.
inline int poll_for(int fd, short events, std::chrono::nanoseconds timeout) {
    pollfd entry{fd, events, 0};
    const timespec time = to_time(timeout);
    EXPECT_GE(calls().ppoll(&entry, 1, &time, nullptr), 0) << std::strerror(errno);
    return entry.revents;
}
inline int poll_now(int fd) { return poll_for(fd, POLLIN | POLLOUT | POLLRDHUP | POLLPRI, 0ns); }

inline void close_all(std::initializer_list<int> descriptors) {
    for (const int fd : descriptors) EXPECT_EQ(calls().close(fd), 0);
}

/// Two ends of a TCP connection, and the listener it came from.
struct TcpPair {
    int listener;
    int client;
    int server;
};
inline TcpPair tcp_pair() {
    TcpPair pair{listener(), open_tcp(), -1};
    connect_to(pair.client, local_name(pair.listener));
    poll_for(pair.client, POLLOUT, 10s);
    poll_for(pair.listener, POLLIN, 10s);
    pair.server = accept_from(pair.listener);
    EXPECT_GE(pair.server, 0) << std::strerror(errno);
    return pair;
}

inline int watch(int epoll, int fd, std::uint32_t events, int operation = EPOLL_CTL_ADD) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return calls().epoll_ctl(epoll, operation, fd, &event);
}
/// The events of the first descriptor that is reported within the time; 0: none.
inline std::uint32_t next_event(int epoll, std::chrono::nanoseconds timeout = 0ns,
                                int* fd = nullptr) {
    epoll_event event{};
    const timespec time = to_time(timeout);
    const int count = calls().epoll_pwait2(epoll, &event, 1, &time, nullptr);
    EXPECT_GE(count, 0) << std::strerror(errno);
    if (fd != nullptr) {
        *fd = count > 0 ? event.data.fd : -1;
    }
    return count > 0 ? event.events : 0;
}

}  // namespace berth::test
