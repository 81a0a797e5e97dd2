/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sockets.h"

/* bind(), alone */
void bind_udp(void);
void bind_tcp(void);
void bind_udp6(void);
void bind_tcp6(void);
void bind_reuse(void);
void bind_errors(void);
void bind_explicit(void);
void bind_shared(void);
void bind_unseen(void);
void bind_options(void);

/* connect(), and what else gives an unbound socket a port */
void connect_tcp(void);
void connect_tcp_refused(void);
void connect_tcp_nonblocking(void);
void connect_udp(void);
void send_unbound(void);
void listen_unbound(void);

/* fork(), exec(), close(), signals: whose a port is, and for how long */
void fork_inherits(void);
void close_ways(void);
void exec_begins(void);
void exec_ends(void);
void killed(void);
void killed_at_work(void);
void signal_handler(void);
void other_namespace(void);

/* Many at once, none left, or no more than allowed */
void waits(void);
void quota(void);
void bind_threads(void);
void exhausted_again(void);
void lives(void);
