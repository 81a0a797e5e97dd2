/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static void close_it(int fd) { CHECK(close(fd) == 0); }

static void bind_one_and_close(int fd) {
    CHECK(close(fd) == 0);
    const int own = bound_udp();
    CHECK(own == fd); /* the number of what was inherited, and a port of this process's own */
    check_truth();
    CHECK(close(own) == 0);
}

/* What a child inherits stays its parent's. */
void fork_inherits(void) {
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
    wait_for_child(child);
    expect_left(COUNT - 1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, fd);
    char* arguments[] = {"/bin/true", NULL};
    pid_t spawned = 0;
    CHECK(posix_spawn(&spawned, arguments[0], &actions, NULL, arguments, environ) == 0);
    wait_for_child(spawned);
    expect_left(COUNT - 1);
    check_truth();
    CHECK(close(fd) == 0);
    expect_left(COUNT);
}

/* Every way to close a descriptor gives its port back. */
void close_ways(void) {
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
void exec_begins(void) {
    const int fd = bound_udp();
    CHECK(fcntl(bound_udp(), F_SETFD, FD_CLOEXEC) == 0);
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    setenv("HELD", number, 1);
    execl(program_invocation_name, program_invocation_name, "exec_ends", (char*)NULL);
    CHECK(false);
}

void exec_ends(void) {
    const int fd = atoi(getenv("HELD"));
    CHECK(is_in_range(port_of(fd)));
    CHECK(close(fd) == 0);
    /* One was closed by exec(); only the kernel's list can tell, seen twice. */
    wait_until_all_are_back(COUNT - 1);
}

/* A process that is killed gives everything back. */
void killed(void) {
    const pid_t child = fork();
    if (child == 0) {
        int fds[COUNT];
        CHECK(fill(fds, udp, v4("0.0.0.0", 0)) == COUNT);
        raise(SIGKILL);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    wait_until_all_are_back(0);
}

/* Children that are killed at any moment leave nothing wrong behind. */
void killed_at_work(void) {
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
    wait_until_all_are_back(0);
    int fds[COUNT];
    CHECK(fill(fds, udp, v4("0.0.0.0", 0)) == COUNT);
    check_truth();
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
void signal_handler(void) {
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

static long tick_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* In another network namespace everything is the kernel's, from the next tick on. */
void other_namespace(void) {
    const int inside = bound_udp();
    CHECK(unshare(CLONE_NEWNET) == 0);
    FILE* setting = fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
    CHECK(setting != NULL && fputs("50000 50099", setting) >= 0 && fclose(setting) == 0);
    const long moved = tick_ms();
    while (tick_ms() == moved) sched_yield();
    for (int i = 0; i < 20; ++i) {
        const int port = port_of(bound_udp());
        CHECK(port >= 50000 && port <= 50099);
    }
    close(inside);
}
