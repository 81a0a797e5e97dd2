/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets of a program that has the local ports FIRST to LAST, and what it may expect of them. What
 * is not as expected is printed, and ends the process with 1. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                                        \
    ((condition) ? (void)0                                                                      \
                 : (printf("%s:%d: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno, \
                           strerror(errno)),                                                    \
                    fflush(stdout), _exit(1)))

/* UNUSUAL_ERRNO is put into errno before calls that must leave it alone. */
enum { FIRST = 40000, LAST = 40199, COUNT = LAST - FIRST + 1, UNUSUAL_ERRNO = 77 };

typedef struct {
    struct sockaddr_storage storage;
    socklen_t size;
} address_t;

address_t v4(const char* host, int port);
address_t v6(const char* host, int port);
const struct sockaddr* raw(const address_t* address);

int udp(void);
int tcp(void);
int udp6(void);
int tcp6(void);
int bound_udp(void);
int bind_to(int fd, address_t address);
int connect_to(int fd, address_t address);
int port_of(int fd);
bool is_in_range(int port);

/* Takes every port that is left; returns how many. */
int fill(int fds[COUNT], int make(void), address_t local);
void close_all(int* fds, int count);

/* The call failed with `error`. */
void expect(int result, int error);
/* So many ports can be had now, and not only after a reconcile. */
void expect_left(int wanted);
void check_distinct(const int* fds, int count);
void check_every_port_is_given(int make(void), address_t local);
/* At the end of a case, its sockets still open: TABLE_TRUTH, a command, compares the run's tables
 * with the kernel's list. */
void check_truth(void);

/* Every port can be had again, within twenty seconds: for what only the kernel's list can tell. At
 * least so many can all along. */
void wait_until_all_are_back(int at_least);

/* A child that must end well. */
void wait_for_child(pid_t child);
/* Runs it in one. */
void in_child(void run(int), int argument);
