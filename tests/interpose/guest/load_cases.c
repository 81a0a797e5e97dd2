/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

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
void waits(void) {
    int fds[COUNT];
    for (int i = 0; i < COUNT; ++i) fds[i] = bound_udp();
    pthread_t thread;
    const double start = seconds();
    CHECK(pthread_create(&thread, NULL, close_later, &fds[7]) == 0);
    bound_udp();
    CHECK(seconds() - start >= 0.2);
    pthread_join(thread, NULL);
    check_truth();
}

/* --per-process 10 */
void quota(void) {
    int fds[COUNT];
    CHECK(fill(fds, udp, v4("0.0.0.0", 0)) == 10);
    expect(connect_to(udp(), v4("127.0.0.1", 53)), EAGAIN);
    close(fds[0]);
    const pid_t child = fork();
    if (child == 0) {
        CHECK(fill(fds, udp, v4("0.0.0.0", 0)) == 10);
        _exit(0);
    }
    wait_for_child(child);
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

void bind_threads(void) {
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
void exhausted_again(void) {
    for (int round = 0; round < 1500; ++round) {
        int fds[COUNT];
        CHECK(fill(fds, round % 2 ? udp : tcp, v4("0.0.0.0", 0)) == COUNT);
        close_all(fds, COUNT);
    }
}

/* Socket lives at 99 % occupancy: how many is in LIVES. */
void lives(void) {
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
