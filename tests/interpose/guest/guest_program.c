/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that knows nothing of berth: makes the calls that `berth run` stands in front of, and
 * checks what a program may expect of them. `guest_program CASE` runs one case; it prints what was
 * not as expected and ends with 1. */
#include "cases.h"

static const struct {
    const char* name;
    void (*run)(void);
} cases[] = {
    {"bind_udp", bind_udp},
    {"bind_tcp", bind_tcp},
    {"bind_udp6", bind_udp6},
    {"bind_tcp6", bind_tcp6},
    {"bind_reuse", bind_reuse},
    {"bind_errors", bind_errors},
    {"bind_explicit", bind_explicit},
    {"bind_shared", bind_shared},
    {"bind_unseen", bind_unseen},
    {"bind_options", bind_options},
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
    {"bind_threads", bind_threads},
    {"exhausted_again", exhausted_again},
    {"lives", lives},
};

int main(int argument_count, char** arguments) {
    for (size_t i = 0; argument_count > 1 && i < sizeof cases / sizeof cases[0]; ++i) {
        if (strcmp(cases[i].name, arguments[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: guest_program CASE\n");
    return 2;
}
