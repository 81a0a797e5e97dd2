/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/syscall.h>

static int udp_with_reuse(void) {
    const int fd = udp();
    const int on = 1;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0);
    return fd;
}

void bind_udp(void) { check_every_port_is_given(udp, v4("0.0.0.0", 0)); }
void bind_tcp(void) { check_every_port_is_given(tcp, v4("127.0.0.1", 0)); }
void bind_udp6(void) { check_every_port_is_given(udp6, v6("::", 0)); }
void bind_tcp6(void) { check_every_port_is_given(tcp6, v6("::1", 0)); }

/* The kernel gives out ports that are in use when these options are set. */
void bind_reuse(void) {
    check_every_port_is_given(udp_with_reuse, v4("0.0.0.0", 0));
    const int fd = udp_with_reuse();
    int value = 0;
    socklen_t size = sizeof value;
    CHECK(bind_to(fd, v4("0.0.0.0", 0)) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, &size) == 0 && value == 1);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &value, &size) == 0 && value == 1);
}

/* Each of these is as without berth, and costs no port. */
void bind_errors(void) {
    const int fd = udp();
    const address_t any = v4("0.0.0.0", 0);
    expect(bind_to(-1, any), EBADF);
    expect(bind_to(1 << 20, any), EBADF);
    expect(bind(fd, NULL, any.size), EFAULT);
    expect(bind(fd, raw(&any), 3), EINVAL);
    for (int i = 0; i < 2 * COUNT; ++i) {
        expect(bind_to(fd, v4("192.0.2.1", 0)), EADDRNOTAVAIL);
        expect(bind_to(0, any), ENOTSOCK);
    }
    expect(bind_to(fd, v6("::", 0)), EAFNOSUPPORT);
    CHECK(bind_to(fd, any) == 0);
    expect(bind_to(fd, any), EINVAL);
    close(fd);
    int fds[COUNT];
    CHECK(fill(fds, udp, any) == COUNT);
    expect(bind_to(fds[0], any), EINVAL); /* also when nothing is left */
    expect(bind_to(0, any), ENOTSOCK);
    const int unix_socket = socket(AF_UNIX, SOCK_DGRAM, 0);
    const struct sockaddr_un {
        sa_family_t family;
        char path[108];
    } name = {AF_UNIX, ""};
    CHECK(bind(unix_socket, (const struct sockaddr*)&name, sizeof(sa_family_t)) == 0);
    check_truth();
}

/* What a program chooses itself is the kernel's to decide, and noted. */
void bind_explicit(void) {
    int fds[COUNT];
    for (int i = 0; i < COUNT / 2; ++i) {
        fds[i] = tcp();
        CHECK(bind_to(fds[i], v4("0.0.0.0", FIRST + i)) == 0);
        CHECK(port_of(fds[i]) == FIRST + i);
    }
    check_truth();
    const int taken = tcp();
    if (getenv("TAKES_ANOTHER") != NULL) {
        CHECK(bind_to(taken, v4("0.0.0.0", FIRST)) == 0);
        CHECK(port_of(taken) >= FIRST + COUNT / 2 && port_of(taken) <= LAST);
        close(taken);
    } else {
        expect(bind_to(taken, v4("0.0.0.0", FIRST)), EADDRINUSE);
    }
    int rest[COUNT];
    const int count = fill(rest, tcp, v4("0.0.0.0", 0));
    CHECK(count == COUNT / 2);
    for (int i = 0; i < count; ++i) CHECK(port_of(rest[i]) >= FIRST + COUNT / 2);
    close_all(fds, COUNT / 2);
    CHECK(fill(fds, tcp, v4("0.0.0.0", 0)) == COUNT / 2);
    check_truth();
}

/* Two sockets on one port: whichever is closed first does not give it away. */
void bind_shared(void) {
    const int first = udp_with_reuse();
    const int second = udp_with_reuse();
    CHECK(bind_to(first, v4("0.0.0.0", 0)) == 0);
    const int port = port_of(first);
    CHECK(bind_to(second, v4("0.0.0.0", port)) == 0);
    close(first);
    int fds[COUNT];
    const int count = fill(fds, udp_with_reuse, v4("0.0.0.0", 0));
    CHECK(count == COUNT - 1);
    for (int i = 0; i < count; ++i) CHECK(port_of(fds[i]) != port);
    check_truth();
}

/* A socket that nobody has seen being made, and one that has got its port by the way. */
void bind_unseen(void) {
    for (int i = 0; i < COUNT; ++i) {
        const int fd = (int)syscall(SYS_socket, AF_INET, i % 2 ? SOCK_DGRAM : SOCK_STREAM, 0);
        CHECK(bind_to(fd, v4("0.0.0.0", 0)) == 0 && is_in_range(port_of(fd)));
        const int original = i % 2 ? udp() : tcp();
        const int copy = dup(original);
        close(original);
        CHECK(bind_to(copy, v4("0.0.0.0", 0)) == 0 && is_in_range(port_of(copy)));
        close(fd);
        close(copy);
    }
    check_truth();
    const int autobound = udp();
    expect((int)send(autobound, "x", 1, 0), EDESTADDRREQ);
    CHECK(port_of(autobound) != 0);
    CHECK(connect_to(autobound, v4("127.0.0.1", 53)) == 0);
    const int other = udp();
    expect((int)send(other, "x", 1, 0), EDESTADDRREQ);
    CHECK(sendto(other, "x", 1, 0, raw(&(address_t){0}), 0) == -1);
    expect(bind_to(other, v4("0.0.0.0", 0)), EINVAL);
    const int unspecified = udp();
    struct sockaddr_in any = {.sin_family = AF_UNSPEC, .sin_port = htons(20000)};
    CHECK(bind(unspecified, (struct sockaddr*)&any, sizeof any) == 0);
    CHECK(connect_to(unspecified, v4("127.0.0.1", 53)) == 0 && port_of(unspecified) == 20000);
    const int listening = tcp();
    CHECK(syscall(SYS_listen, listening, 1) == 0 && listen(listening, 2) == 0);
}

/* IP_BIND_ADDRESS_NO_PORT and IP_LOCAL_PORT_RANGE keep their meaning. */
void bind_options(void) {
    const int on = 1;
    const int fd = tcp();
    CHECK(setsockopt(fd, IPPROTO_IP, 24, &on, sizeof on) == 0);
    CHECK(bind_to(fd, v4("127.0.0.1", 0)) == 0 && port_of(fd) == 0);
    const uint32_t range = (FIRST + 19) << 16 | (FIRST + 10);
    for (int i = 0; i < 10; ++i) {
        const int narrow = udp();
        CHECK(setsockopt(narrow, IPPROTO_IP, 51, &range, sizeof range) == 0);
        CHECK(bind_to(narrow, v4("0.0.0.0", 0)) == 0);
        CHECK(port_of(narrow) >= FIRST + 10 && port_of(narrow) <= FIRST + 19);
    }
    /* A port that none of these has: for IPv6 alone theirs are free. */
    int v6_only;
    do {
        v6_only = udp6();
        CHECK(setsockopt(v6_only, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0);
        CHECK(bind_to(v6_only, v6("::", 0)) == 0);
    } while (port_of(v6_only) >= FIRST + 10 && port_of(v6_only) <= FIRST + 19);
    const int dual = udp6();
    CHECK(bind_to(dual, v6("::", 0)) == 0);
    CHECK(bind_to(udp(), v4("0.0.0.0", port_of(v6_only))) == 0);
    expect(bind_to(udp(), v4("0.0.0.0", port_of(dual))), EADDRINUSE);
    check_truth();
    /* A raw socket only names the protocol: it can be bound when no port is left. */
    int fds[COUNT];
    CHECK(fill(fds, udp, v4("0.0.0.0", 0)) > 0);
    const int raw_socket = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
    CHECK(raw_socket >= 0 && bind_to(raw_socket, v4("127.0.0.1", 0)) == 0);
    check_truth();
}
