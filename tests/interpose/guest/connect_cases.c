/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <sys/uio.h>

static int listener_on(const char* host) {
    const int fd = tcp();
    CHECK(bind_to(fd, v4(host, 20000)) == 0 && listen(fd, 4096) == 0);
    return fd;
}

/* Connects until no port is left. */
static int connect_all(int fds[COUNT], address_t remote) {
    int count = 0;
    while (count <= COUNT) {
        const int fd = tcp();
        errno = UNUSUAL_ERRNO;
        if (connect_to(fd, remote) != 0) {
            CHECK(errno == EADDRNOTAVAIL);
            close(fd);
            break;
        }
        CHECK(errno == UNUSUAL_ERRNO && count < COUNT);
        CHECK(is_in_range(port_of(fd)));
        uint32_t range = 1;
        socklen_t size = sizeof range;
        CHECK(getsockopt(fd, IPPROTO_IP, 51, &range, &size) != 0 || range == 0);
        fds[count++] = fd;
    }
    return count;
}

/* A port serves every destination; none is given twice toward one. */
void connect_tcp(void) {
    const int first_listener = listener_on("127.0.0.1");
    const int second_listener = listener_on("127.0.0.2");
    int first[COUNT];
    int second[COUNT];
    CHECK(connect_all(first, v4("127.0.0.1", 20000)) == COUNT);
    CHECK(connect_all(second, v4("127.0.0.2", 20000)) == COUNT);
    check_distinct(first, COUNT);
    check_distinct(second, COUNT);
    check_truth();
    close_all(first, COUNT);
    close_all(second, COUNT);
    close(first_listener);
    close(second_listener);
}

void connect_tcp_refused(void) {
    const address_t nobody = v4("127.0.0.1", 20001);
    for (int i = 0; i < 2 * COUNT; ++i) {
        const int fd = tcp();
        expect(connect_to(fd, nobody), ECONNREFUSED);
        expect(connect_to(fd, nobody), ECONNREFUSED); /* again on the same socket */
        close(fd);
    }
    const int listener = listener_on("127.0.0.1");
    const int fd = tcp();
    expect(connect_to(fd, nobody), ECONNREFUSED);
    CHECK(connect_to(fd, v4("127.0.0.1", 20000)) == 0 && is_in_range(port_of(fd)));
    expect(connect_to(fd, v4("127.0.0.1", 20000)), EISCONN);
    check_truth();
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    CHECK(connect(fd, &nowhere, sizeof nowhere) == 0);
    CHECK(connect_to(fd, v4("127.0.0.1", 20000)) == 0);
    expect(connect_to(-1, nobody), EBADF);
    expect(connect(tcp(), NULL, 16), EFAULT);
    expect(connect(tcp(), raw(&nobody), 3), EINVAL);
    close(listener);
}

void connect_tcp_nonblocking(void) {
    const int listener = listener_on("127.0.0.1");
    for (int i = 0; i < COUNT / 2; ++i) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        const int result = connect_to(fd, v4("127.0.0.1", 20000));
        CHECK(result == 0 || errno == EINPROGRESS);
        struct pollfd waiting = {.fd = fd, .events = POLLOUT};
        CHECK(poll(&waiting, 1, 10000) == 1);
        int error = 1;
        socklen_t size = sizeof error;
        CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
        const int again = connect_to(fd, v4("127.0.0.1", 20000));
        CHECK(again == 0 || errno == EISCONN);
        CHECK(is_in_range(port_of(fd)));
    }
    check_truth();
    close(listener);
}

void connect_udp(void) {
    int fds[COUNT];
    for (int i = 0; i < COUNT; ++i) {
        fds[i] = udp();
        errno = UNUSUAL_ERRNO;
        CHECK(connect_to(fds[i], v4("127.0.0.1", 53)) == 0 && errno == UNUSUAL_ERRNO);
        CHECK(is_in_range(port_of(fds[i])));
        CHECK(send(fds[i], "x", 1, 0) == 1);
    }
    check_distinct(fds, COUNT);
    check_truth();
    const int extra = udp();
    expect(connect_to(extra, v4("127.0.0.1", 53)), EAGAIN);
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    CHECK(connect(fds[0], &nowhere, sizeof nowhere) == 0);
    CHECK(connect_to(fds[0], v4("127.0.0.1", 54)) == 0);
    close_all(fds, COUNT);
    CHECK(connect_to(extra, v4("127.0.0.1", 53)) == 0);
    close(extra);
}

static ssize_t send_one(int fd, int way, address_t to) {
    struct iovec part = {.iov_base = "x", .iov_len = 1};
    struct mmsghdr messages[2] = {0};
    for (int i = 0; i < 2; ++i) {
        messages[i].msg_hdr.msg_name = &to.storage;
        messages[i].msg_hdr.msg_namelen = to.size;
        messages[i].msg_hdr.msg_iov = &part;
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    switch (way) {
        case 0: return sendto(fd, "x", 1, 0, raw(&to), to.size);
        case 1: return sendmsg(fd, &messages[0].msg_hdr, 0);
        default: return sendmmsg(fd, messages, 2, 0) == 2 ? 1 : -1;
    }
}

void send_unbound(void) {
    int fds[COUNT];
    const int receiver = udp();
    CHECK(bind_to(receiver, v4("127.0.0.1", 20000)) == 0);
    for (int i = 0; i < COUNT; ++i) {
        fds[i] = udp();
        errno = UNUSUAL_ERRNO;
        CHECK(send_one(fds[i], i % 3, v4("127.0.0.1", 20000)) == 1 && errno == UNUSUAL_ERRNO);
        CHECK(is_in_range(port_of(fds[i])));
        CHECK(send_one(fds[i], i % 3, v4("127.0.0.1", 20000)) == 1);
    }
    check_distinct(fds, COUNT);
    check_truth();
    for (int way = 0; way < 3; ++way) {
        const int extra = udp();
        expect((int)send_one(extra, way, v4("127.0.0.1", 20000)), EAGAIN);
        close(extra);
    }
    expect((int)sendto(-1, "x", 1, 0, NULL, 0), EBADF);
    close_all(fds, COUNT);
    const int without_address = udp(); /* the kernel gives it a port all the same */
    expect((int)sendto(without_address, "x", 1, 0, NULL, 0), EDESTADDRREQ);
    close(without_address);
    const int six = udp6();
    CHECK(send_one(six, 0, v6("::ffff:127.0.0.1", 20000)) == 1 && is_in_range(port_of(six)));
    char byte;
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    CHECK(recvfrom(receiver, &byte, 1, 0, (struct sockaddr*)&from, &size) == 1);
    CHECK(is_in_range(ntohs(from.sin_port)));
    check_truth();
}

void listen_unbound(void) {
    int fds[COUNT];
    for (int i = 0; i < COUNT; ++i) {
        fds[i] = tcp();
        CHECK(listen(fds[i], 1) == 0 && is_in_range(port_of(fds[i])));
    }
    check_distinct(fds, COUNT);
    check_truth();
    expect(listen(tcp(), 1), EADDRINUSE);
    expect(listen(udp(), 1), EOPNOTSUPP);
    expect(listen(-1, 1), EBADF);
}
