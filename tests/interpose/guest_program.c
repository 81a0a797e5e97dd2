/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that knows nothing of berth: makes the calls that `berth run` stands in front of, and
 * checks what a program may expect of them. `guest_program CASE` runs one case; it prints what was
 * not as expected and ends with 1. At the end of a case TABLE_TRUTH, a command, compares the run's
 * tables with the kernel's list while the sockets are still open. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/close_range.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                        \
    ((condition) ? (void)0                                                                      \
                 : (printf("%s:%d: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno, \
                           strerror(errno)),                                                    \
                    fflush(stdout), _exit(1)))

extern char** environ;

enum { FIRST = 40000, LAST = 40199, COUNT = LAST - FIRST + 1, UNUSUAL_ERRNO = 77 };

typedef struct {
    struct sockaddr_storage storage;
    socklen_t size;
} address_t;

static const char* self_path;

static address_t v4(const char* host, int port) {
    address_t address = {.size = sizeof(struct sockaddr_in)};
    struct sockaddr_in* in = (struct sockaddr_in*)&address.storage;
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)port);
    CHECK(inet_pton(AF_INET, host, &in->sin_addr) == 1);
    return address;
}

static address_t v6(const char* host, int port) {
    address_t address = {.size = sizeof(struct sockaddr_in6)};
    struct sockaddr_in6* in = (struct sockaddr_in6*)&address.storage;
    in->sin6_family = AF_INET6;
    in->sin6_port = htons((uint16_t)port);
    CHECK(inet_pton(AF_INET6, host, &in->sin6_addr) == 1);
    return address;
}

static const struct sockaddr* raw(const address_t* address) {
    return (const struct sockaddr*)&address->storage;
}

static int udp(void) { return socket(AF_INET, SOCK_DGRAM, 0); }
static int tcp(void) { return socket(AF_INET, SOCK_STREAM, 0); }

static int bind_to(int fd, address_t address) { return bind(fd, raw(&address), address.size); }
static int connect_to(int fd, address_t address) { return connect(fd, raw(&address), address.size); }

static int port_of(int fd) {
    struct sockaddr_in6 address;
    socklen_t size = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr*)&address, &size) == 0);
    return ntohs(address.sin6_port);
}

static bool is_in_range(int port) { return port >= FIRST && port <= LAST; }

static void check_truth(void) {
    const char* command = getenv("TABLE_TRUTH");
    fflush(stdout);
    CHECK(command == NULL || system(command) == 0);
}

/* Takes every port that is left; returns how many. */
static int fill(int fds[COUNT], int make(void), address_t local) {
    int count = 0;
    while (count < COUNT) {
        const int fd = make();
        CHECK(fd >= 0);
        errno = UNUSUAL_ERRNO;
        if (bind_to(fd, local) != 0) {
            CHECK(errno == EADDRINUSE);
            close(fd);
            break;
        }
        CHECK(errno == UNUSUAL_ERRNO);
        CHECK(is_in_range(port_of(fd)));
        fds[count++] = fd;
    }
    return count;
}

static void close_all(int* fds, int count) {
    for (int i = 0; i < count; ++i) {
        errno = UNUSUAL_ERRNO;
        CHECK(close(fds[i]) == 0 && errno == UNUSUAL_ERRNO);
    }
}

static void check_distinct(const int* fds, int count) {
    bool seen[65536] = {false};
    for (int i = 0; i < count; ++i) {
        const int port = port_of(fds[i]);
        CHECK(!seen[port]);
        seen[port] = true;
    }
}

static void check_every_port_is_given(int make(void), address_t local) {
    int fds[COUNT];
    const int count = fill(fds, make, local);
    CHECK(count == COUNT);
    check_distinct(fds, count);
    const int extra = make();
    CHECK(bind_to(extra, local) == -1 && errno == EADDRINUSE);
    close(extra);
    check_truth();
    close_all(fds, count);
    const int again = make();
    CHECK(bind_to(again, local) == 0 && is_in_range(port_of(again)));
    close(again);
}

static int udp6(void) { return socket(AF_INET6, SOCK_DGRAM, 0); }
static int tcp6(void) { return socket(AF_INET6, SOCK_STREAM, 0); }
static int udp_with_reuse(void) {
    const int fd = udp();
    const int on = 1;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0);
    return fd;
}

static void bind_udp(void) { check_every_port_is_given(udp, v4("0.0.0.0", 0)); }
static void bind_tcp(void) { check_every_port_is_given(tcp, v4("127.0.0.1", 0)); }
static void bind_udp6(void) { check_every_port_is_given(udp6, v6("::", 0)); }
static void bind_tcp6(void) { check_every_port_is_given(tcp6, v6("::1", 0)); }

/* The kernel gives out ports that are in use when these options are set. */
static void bind_reuse(void) {
    check_every_port_is_given(udp_with_reuse, v4("0.0.0.0", 0));
    const int fd = udp_with_reuse();
    int value = 0;
    socklen_t size = sizeof value;
    CHECK(bind_to(fd, v4("0.0.0.0", 0)) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, &size) == 0 && value == 1);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &value, &size) == 0 && value == 1);
}

static void expect(int result, int error) {
    CHECK(result == -1);
    CHECK(errno == error);
}

/* Each of these is as without berth, and costs no port. */
static void bind_errors(void) {
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
static void bind_explicit(void) {
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
static void bind_shared(void) {
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
static void bind_unseen(void) {
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
static void bind_options(void) {
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
static void connect_tcp(void) {
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

static void connect_tcp_refused(void) {
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

static void connect_tcp_nonblocking(void) {
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

static void connect_udp(void) {
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

static void send_unbound(void) {
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

static void listen_unbound(void) {
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

static int bound_udp(void) {
    const int fd = udp();
    CHECK(fd >= 0 && bind_to(fd, v4("0.0.0.0", 0)) == 0);
    return fd;
}

/* How many ports can be had now: 0 when `wanted` can, within a time that no reconcile takes. */
static void expect_left(int wanted) {
    int fds[COUNT];
    const int count = fill(fds, udp, v4("0.0.0.0", 0));
    CHECK(count == wanted);
    close_all(fds, count);
}

static void in_child(void run(int), int argument) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        run(argument);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void close_it(int fd) { CHECK(close(fd) == 0); }
static void bind_one_and_close(int fd) {
    CHECK(close(fd) == 0);
    const int own = bound_udp();
    CHECK(own == fd); /* the number of what was inherited, and a port of this process's own */
    check_truth();
    CHECK(close(own) == 0);
}

/* What a child inherits stays its parent's. */
static void fork_inherits(void) {
    const int fd = bound_udp();
    in_child(close_it, fd);
    expect_left(COUNT - 1);
    in_child(bind_one_and_close, fd);
    expect_left(COUNT - 1);
    const pid_t child = vfork();
    if (child == 0) {
        close(fd);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    expect_left(COUNT - 1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, fd);
    char* arguments[] = {"/bin/true", NULL};
    pid_t spawned = 0;
    CHECK(posix_spawn(&spawned, arguments[0], &actions, NULL, arguments, environ) == 0);
    CHECK(waitpid(spawned, &status, 0) == spawned && status == 0);
    expect_left(COUNT - 1);
    check_truth();
    CHECK(close(fd) == 0);
    expect_left(COUNT);
}

/* Every way to close a descriptor gives its port back. */
static void close_ways(void) {
    const int null = open("/dev/null", O_RDWR);
    int fd = bound_udp();
    CHECK(dup2(null, fd) == fd && close(fd) == 0);
    expect_left(COUNT);
    fd = bound_udp();
    CHECK(dup3(null, fd, O_CLOEXEC) == fd && close(fd) == 0);
    expect_left(COUNT);
    fd = bound_udp();
    CHECK(dup2(fd, fd) == fd);
    expect(dup2(-1, fd), EBADF); /* closes nothing */
    expect_left(COUNT - 1);
    int next = bound_udp();
    CHECK(close_range((unsigned)fd, (unsigned)next, CLOSE_RANGE_CLOEXEC) == 0);
    expect_left(COUNT - 2);
    CHECK(close_range((unsigned)fd, (unsigned)next, 0) == 0);
    expect_left(COUNT);
    fd = bound_udp();
    next = bound_udp();
    CHECK(next > fd);
    closefrom(fd);
    expect(fcntl(fd, F_GETFD), EBADF);
    expect(fcntl(next, F_GETFD), EBADF);
    expect_left(COUNT);
    /* Behind our back: noticed when the number comes again. */
    fd = bound_udp();
    syscall(SYS_close, fd);
    const int again = bound_udp();
    CHECK(again == fd);
    expect_left(COUNT - 1);
    check_truth();
    close(again);
    expect_left(COUNT);
}

/* The process is the same after exec(), and what it holds stays its own. */
static void exec_begins(void) {
    const int fd = bound_udp();
    CHECK(fcntl(bound_udp(), F_SETFD, FD_CLOEXEC) == 0);
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    setenv("HELD", number, 1);
    execl(self_path, self_path, "exec_ends", (char*)NULL);
    CHECK(false);
}

static void exec_ends(void) {
    const int fd = atoi(getenv("HELD"));
    CHECK(is_in_range(port_of(fd)));
    CHECK(close(fd) == 0);
    /* One was closed by exec(); only the kernel's list can tell, seen twice. */
    for (int i = 0; i < 200; ++i) {
        int fds[COUNT];
        const int count = fill(fds, udp, v4("0.0.0.0", 0));
        CHECK(count >= COUNT - 1);
        if (count == COUNT) return;
        close_all(fds, count);
        usleep(100000);
    }
    CHECK(false);
}

/* A process that is killed gives everything back. */
static void killed(void) {
    const pid_t child = fork();
    if (child == 0) {
        int fds[COUNT];
        CHECK(fill(fds, udp, v4("0.0.0.0", 0)) == COUNT);
        raise(SIGKILL);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    for (int i = 0; i < 200; ++i) {
        int fds[COUNT];
        const int count = fill(fds, udp, v4("0.0.0.0", 0));
        if (count == COUNT) return;
        close_all(fds, count);
        usleep(100000);
    }
    CHECK(false);
}

/* Children that are killed at any moment leave nothing wrong behind. */
static void killed_at_work(void) {
    for (int round = 0; round < 30; ++round) {
        const pid_t child = fork();
        if (child == 0) {
            while (true) {
                close(bound_udp());
                close(bound_udp());
            }
        }
        usleep(1000 * (1 + round % 7));
        kill(child, SIGKILL);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    for (int i = 0; i < 200; ++i) {
        int fds[COUNT];
        const int count = fill(fds, udp, v4("0.0.0.0", 0));
        if (count == COUNT) {
            check_truth();
            return;
        }
        close_all(fds, count);
        usleep(100000);
    }
    CHECK(false);
}

static volatile sig_atomic_t handler_count;

static void on_alarm(int signal) {
    (void)signal;
    const int saved = errno;
    const int fd = udp();
    if (fd >= 0) {
        if (bind_to(fd, v4("0.0.0.0", 0)) == 0) ++handler_count;
        close(fd);
    }
    errno = saved;
}

/* A signal handler may bind and close, also while the program binds and closes. */
static void signal_handler(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
    const struct itimerspec each = {{0, 100000}, {0, 100000}};
    CHECK(timer_settime(timer, 0, &each, NULL) == 0);
    for (int i = 0; i < 20000 || handler_count < 100; ++i) close(bound_udp());
    CHECK(timer_delete(timer) == 0);
    CHECK(sigaction(SIGALRM, &(struct sigaction){.sa_handler = SIG_IGN}, NULL) == 0);
    check_truth();
    expect_left(COUNT);
}

/* In another network namespace everything is the kernel's. */
static void other_namespace(void) {
    const int inside = bound_udp();
    CHECK(unshare(CLONE_NEWNET) == 0);
    FILE* setting = fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
    CHECK(setting != NULL && fputs("50000 50099", setting) >= 0 && fclose(setting) == 0);
    usleep(20000);
    for (int i = 0; i < 20; ++i) {
        const int port = port_of(bound_udp());
        CHECK(port >= 50000 && port <= 50099);
    }
    close(inside);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void* close_later(void* fd) {
    usleep(300000);
    close(*(int*)fd);
    return NULL;
}

/* --when-full wait=5: a call that finds no port waits until there is one. */
static void waits(void) {
    int fds[COUNT];
    for (int i = 0; i < COUNT; ++i) fds[i] = bound_udp();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, close_later, &fds[7]) == 0);
    const double start = seconds();
    bound_udp();
    CHECK(seconds() - start >= 0.2);
    pthread_join(thread, NULL);
    check_truth();
}

/* --per-process 10 */
static void quota(void) {
    int fds[COUNT];
    CHECK(fill(fds, udp, v4("0.0.0.0", 0)) == 10);
    expect(connect_to(udp(), v4("127.0.0.1", 53)), EAGAIN);
    close(fds[0]);
    const pid_t child = fork();
    if (child == 0) {
        CHECK(fill(fds, udp, v4("0.0.0.0", 0)) == 10);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    fds[0] = bound_udp();
    CHECK(bind_to(fds[0], v4("0.0.0.0", 0)) == -1);
}

struct hammering {
    pthread_t thread;
    int count;
};

static void* hammer(void* argument) {
    struct hammering* mine = argument;
    int held[4] = {-1, -1, -1, -1};
    for (int i = 0; i < mine->count; ++i) {
        int* slot = &held[i % 4];
        if (*slot >= 0) close(*slot);
        *slot = udp();
        if (bind_to(*slot, v4("0.0.0.0", 0)) != 0) CHECK(errno == EADDRINUSE);
    }
    for (int i = 0; i < 4; ++i) close(held[i]);
    return NULL;
}

static void bind_threads(void) {
    struct hammering threads[8];
    for (int i = 0; i < 8; ++i) {
        threads[i].count = 2000;
        CHECK(pthread_create(&threads[i].thread, NULL, hammer, &threads[i]) == 0);
    }
    for (int i = 0; i < 8; ++i) pthread_join(threads[i].thread, NULL);
    check_every_port_is_given(udp, v4("0.0.0.0", 0));
}

/* Every port is found again and again, while the supervisor compares an older list of the kernel's
 * with the table, which it is asked for whenever no port is left. */
static void exhausted_again(void) {
    for (int round = 0; round < 1500; ++round) {
        int fds[COUNT];
        CHECK(fill(fds, round % 2 ? udp : tcp, v4("0.0.0.0", 0)) == COUNT);
        close_all(fds, COUNT);
    }
}

/* Socket lives at 99 % occupancy: how many is in LIVES. */
static void lives(void) {
    const char* wanted = getenv("LIVES");
    const long count = wanted != NULL ? atol(wanted) : 20000;
    int fds[COUNT];
    for (int i = 0; i < COUNT - 2; ++i) {
        fds[i] = udp();
        CHECK(bind_to(fds[i], v4("0.0.0.0", 0)) == 0);
    }
    for (long i = 0; i < count; ++i) {
        const int fd = udp();
        CHECK(bind_to(fd, v4("0.0.0.0", 0)) == 0);
        CHECK(close(fd) == 0);
    }
    check_truth();
    int rest[COUNT];
    CHECK(fill(rest, udp, v4("0.0.0.0", 0)) == 2);
    check_distinct(fds, COUNT - 2);
}

static const struct {
    const char* name;
    void (*run)(void);
} cases[] = {
    {"bind_udp", bind_udp},         {"bind_tcp", bind_tcp},
    {"bind_udp6", bind_udp6},       {"bind_tcp6", bind_tcp6},
    {"bind_reuse", bind_reuse},     {"bind_errors", bind_errors},
    {"bind_explicit", bind_explicit}, {"bind_shared", bind_shared},
    {"bind_options", bind_options},
    {"bind_unseen", bind_unseen}, {"bind_threads", bind_threads},
    {"exhausted_again", exhausted_again},
    {"lives", lives},
    {"connect_tcp", connect_tcp},
    {"connect_tcp_refused", connect_tcp_refused},
    {"connect_tcp_nonblocking", connect_tcp_nonblocking},
    {"connect_udp", connect_udp},
    {"send_unbound", send_unbound},
    {"listen_unbound", listen_unbound},
    {"fork_inherits", fork_inherits},
    {"close_ways", close_ways},
    {"exec_begins", exec_begins},
    {"exec_ends", exec_ends},
    {"killed", killed},
    {"killed_at_work", killed_at_work},
    {"signal_handler", signal_handler},
    {"other_namespace", other_namespace},
    {"waits", waits},
    {"quota", quota},
};

int main(int argument_count, char** arguments) {
    self_path = arguments[0];
    for (size_t i = 0; argument_count > 1 && i < sizeof cases / sizeof cases[0]; ++i) {
        if (strcmp(cases[i].name, arguments[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: guest_program CASE\n");
    return 2;
}
