/* SPDX-License-Identifier: Apache-2.0 */
#include "sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/wait.h>

address_t v4(const char* host, int port) {
    address_t address = {.size = sizeof(struct sockaddr_in)};
    struct sockaddr_in* in = (struct sockaddr_in*)&address.storage;
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)port);
    CHECK(inet_pton(AF_INET, host, &in->sin_addr) == 1);
    return address;
}

address_t v6(const char* host, int port) {
    address_t address = {.size = sizeof(struct sockaddr_in6)};
    struct sockaddr_in6* in = (struct sockaddr_in6*)&address.storage;
    in->sin6_family = AF_INET6;
    in->sin6_port = htons((uint16_t)port);
    CHECK(inet_pton(AF_INET6, host, &in->sin6_addr) == 1);
    return address;
}

const struct sockaddr* raw(const address_t* address) {
    return (const struct sockaddr*)&address->storage;
}

int udp(void) { return socket(AF_INET, SOCK_DGRAM, 0); }
int tcp(void) { return socket(AF_INET, SOCK_STREAM, 0); }
int bind_to(int fd, address_t address) { return bind(fd, raw(&address), address.size); }
int connect_to(int fd, address_t address) { return connect(fd, raw(&address), address.size); }

int port_of(int fd) {
    struct sockaddr_in6 address;
    socklen_t size = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr*)&address, &size) == 0);
    return ntohs(address.sin6_port);
}

bool is_in_range(int port) { return port >= FIRST && port <= LAST; }

void check_truth(void) {
    const char* command = getenv("TABLE_TRUTH");
    fflush(stdout);
    CHECK(command == NULL || system(command) == 0);
}

int fill(int fds[COUNT], int make(void), address_t local) {
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

void close_all(int* fds, int count) {
    for (int i = 0; i < count; ++i) {
        errno = UNUSUAL_ERRNO;
        CHECK(close(fds[i]) == 0 && errno == UNUSUAL_ERRNO);
    }
}

void check_distinct(const int* fds, int count) {
    bool seen[65536] = {false};
    for (int i = 0; i < count; ++i) {
        const int port = port_of(fds[i]);
        CHECK(!seen[port]);
        seen[port] = true;
    }
}

void check_every_port_is_given(int make(void), address_t local) {
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

int udp6(void) { return socket(AF_INET6, SOCK_DGRAM, 0); }
int tcp6(void) { return socket(AF_INET6, SOCK_STREAM, 0); }

void expect(int result, int error) {
    CHECK(result == -1);
    CHECK(errno == error);
}

int bound_udp(void) {
    const int fd = udp();
    CHECK(fd >= 0 && bind_to(fd, v4("0.0.0.0", 0)) == 0);
    return fd;
}

void expect_left(int wanted) {
    int fds[COUNT];
    const int count = fill(fds, udp, v4("0.0.0.0", 0));
    CHECK(count == wanted);
    close_all(fds, count);
}

void wait_until_all_are_back(int at_least) {
    for (int i = 0; i < 200; ++i) {
        int fds[COUNT];
        const int count = fill(fds, udp, v4("0.0.0.0", 0));
        CHECK(count >= at_least);
        close_all(fds, count);
        if (count == COUNT) return;
        usleep(100000);
    }
    CHECK(false);
}

void wait_for_child(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void in_child(void run(int), int argument) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        run(argument);
        _exit(0);
    }
    wait_for_child(child);
}
