/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ports for programs that know nothing of berth: bind() with port 0 and connect() of every socket
 * in a cgroup are answered from a table. Whatever is unclear is left to the kernel: a namespace
 * without a table, a table that nobody has compared with the kernel lately, another protocol, a
 * socket with wishes of its own. Returning 1 is the kernel's own behaviour.
 *
 * What no hook sees, and the agent learns from sock_diag instead: sockets from before the
 * attachment, of other cgroups and of the kernel; listen() and sendto() without bind(), which
 * choose before any hook (sendto() is noted right after it); a listener's port after it has closed,
 * while connections that it accepted live on; the end of a TIME_WAIT.
 *
 * Since kernel: 5.18 (bpf_set_retval), bpf_loop 5.17. Needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/in6.h>

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define AF_INET 2
#define AF_INET6 10
#define SOL_SOCKET 1
#define SO_REUSEADDR 2
#define EADDRINUSE 98
#define EAGAIN 11

#include "src/interpose/bpf/connection.bpf.h"
#include "src/interpose/bpf/kernel_types.bpf.h"

char berth_license[] SEC("license") = "Dual BSD/GPL";

/* Which bit of inet_flags, from the kernel's BTF; -1: it has no such word. */
const volatile int bind_address_no_port_bit = -1;

/* The verifier lets nobody look into a socket beyond the fields it knows, nor compute with a
 * pointer to one. Copied through the stack, the pointer is a number, which
 * bpf_probe_read_kernel() takes. */
static __always_inline const void* inside_of(void* sk) {
    void* on_stack = sk;
    __u64 address = 0;
    bpf_probe_read_kernel(&address, sizeof(address), &on_stack);
    return (const void*)address;
}

static __always_inline int has_own_range(const void* sk) {
    const struct inet_sock* inet = sk;
    const struct inet_sock___two_halves* halves = sk;
    __u32 range = 0;
    if (bpf_core_field_exists(inet->local_port_range)) {
        bpf_core_read(&range, sizeof(range), &inet->local_port_range);
    } else if (bpf_core_field_exists(halves->local_port_range)) {
        bpf_core_read(&range, sizeof(range), &halves->local_port_range);
    }
    return range != 0;
}

static __always_inline int leaves_port_to_connect(const void* sk) {
    const struct inet_sock* inet = sk;
    const struct inet_sock___bit_field* bits = sk;
    if (bpf_core_field_exists(bits->bind_address_no_port)) {
        return BPF_CORE_READ_BITFIELD_PROBED(bits, bind_address_no_port) != 0;
    }
    unsigned long flags = 0;
    if (bind_address_no_port_bit < 0 || !bpf_core_field_exists(inet->inet_flags)) {
        return 0;
    }
    bpf_core_read(&flags, sizeof(flags), &inet->inet_flags);
    return flags >> (bind_address_no_port_bit & 63) & 1;
}

static __always_inline int is_known_protocol(__u32 protocol) {
    return protocol == IPPROTO_UDP || protocol == IPPROTO_TCP;
}

/* SO_REUSEPORT and SO_REUSEADDR need no care: a port of the table has no other holder, where the
 * kernel's own choice would hand out one in use. */
static __always_inline int answer_bind(struct bpf_sock_addr* ctx) {
    if (ctx->user_port != 0 || !is_known_protocol(ctx->protocol)) {
        return 1;
    }
    struct berth_table* table = find_table(bpf_get_netns_cookie(ctx), ctx->protocol);
    struct bpf_sock* sk = ctx->sk;
    const __u64 now = now_ms();
    if (!table || !sk || !is_valid(table, now)) {
        return 1;
    }
    const void* inside = inside_of(sk);
    if (has_own_range(inside) || leaves_port_to_connect(inside)) {
        return 1;
    }
    const int port = choose_port(table, now);
    if (port > 0) {
        count_event(&table->counters.given);
        ctx->user_port = bpf_htons(port);
        return 1;
    }
    if (is_kernel_asked(table)) {
        return 1;
    }
    bpf_set_retval(-EADDRINUSE);
    return 0;
}

SEC("cgroup/bind4") int berth_bind4(struct bpf_sock_addr* ctx) { return answer_bind(ctx); }
SEC("cgroup/bind6") int berth_bind6(struct bpf_sock_addr* ctx) { return answer_bind(ctx); }

static __always_inline int note_bind(struct bpf_sock* sk) {
    const __u32 port = sk->src_port;
    if (port == 0 || !is_known_protocol(sk->protocol)) {
        return 1;
    }
    struct berth_table* table = find_table(bpf_get_netns_cookie(sk), sk->protocol);
    if (table) {
        note_holder(table, port, bpf_get_socket_cookie(sk), sk);
    }
    return 1;
}

SEC("cgroup/post_bind4") int berth_post_bind4(struct bpf_sock* sk) { return note_bind(sk); }
SEC("cgroup/post_bind6") int berth_post_bind6(struct bpf_sock* sk) { return note_bind(sk); }

static __always_inline int answer_connect(struct bpf_sock_addr* ctx, int is_v6) {
    struct bpf_sock* sk = ctx->sk;
    const __u32 protocol = ctx->protocol;
    if (!sk || sk->src_port != 0 || !is_known_protocol(protocol)) {
        return 1;
    }
    const __u64 netns_cookie = bpf_get_netns_cookie(ctx);
    struct berth_table* table = find_table(netns_cookie, protocol);
    if (!table || !is_valid(table, now_ms()) || has_own_range(inside_of(sk))) {
        return 1;
    }
    if (protocol == IPPROTO_TCP) {
        connect_tcp(ctx, is_v6, sk, table, netns_cookie);
        return 1;
    }
    if (connect_udp(ctx, is_v6, sk, table)) {
        return 1;
    }
    bpf_set_retval(-EAGAIN);
    return 0;
}

SEC("cgroup/connect4") int berth_connect4(struct bpf_sock_addr* ctx) {
    return answer_connect(ctx, 0);
}
SEC("cgroup/connect6") int berth_connect6(struct bpf_sock_addr* ctx) {
    return answer_connect(ctx, 1);
}

/* The first send of a socket that the kernel has given a port to just now. */
static __always_inline int note_send(struct bpf_sock_addr* ctx) {
    struct bpf_sock* sk = ctx->sk;
    if (!sk || sk->src_port == 0) {
        return 1;
    }
    const __u32 port = sk->src_port;
    struct berth_table* table = find_table(bpf_get_netns_cookie(ctx), IPPROTO_UDP);
    if (table && kind_of(*owner_of(table, port)) != BERTH_HELD) {
        note_holder(table, port, bpf_get_socket_cookie(ctx), sk);
    }
    return 1;
}

SEC("cgroup/sendmsg4") int berth_sendmsg4(struct bpf_sock_addr* ctx) { return note_send(ctx); }
SEC("cgroup/sendmsg6") int berth_sendmsg6(struct bpf_sock_addr* ctx) { return note_send(ctx); }

/* close() sends a reset: SO_LINGER with no time. */
static __always_inline int resets_when_closed(const struct sock* sk) {
    unsigned long flags = 0, linger_time = 0;
    bpf_core_read(&flags, sizeof(flags), &sk->__sk_common.skc_flags);
    if (!(flags >> (bpf_core_enum_value(enum sock_flags, SOCK_LINGER) & 63) & 1)) {
        return 0;
    }
    bpf_core_read(&linger_time, sizeof(linger_time), &sk->sk_lingertime);
    return linger_time == 0;
}

static __always_inline enum remains what_remains(const struct bpf_sock* sk) {
    if (sk->protocol != IPPROTO_TCP) {
        return NOTHING;
    }
    switch (sk->state) {
        case BPF_TCP_CLOSE:
        case BPF_TCP_SYN_SENT:
            return NOTHING;
        case BPF_TCP_LISTEN:
            return TIME_WAIT;
        case BPF_TCP_CLOSE_WAIT:
        case BPF_TCP_LAST_ACK:
            return resets_when_closed((const struct sock*)sk) ? NOTHING : LAST_ACK;
        default:
            return resets_when_closed((const struct sock*)sk) ? NOTHING : TIME_WAIT;
    }
}

/* Runs at the last close() of the last descriptor, wherever that is: dup(), fork() and descriptors
 * under way in a UNIX socket need no care. src_port cannot be read here. */
SEC("cgroup/sock_release") int berth_sock_release(struct bpf_sock* sk) {
    if (!is_known_protocol(sk->protocol)) {
        return 1;
    }
    __u16 port = 0;
    const struct sock* inside = (const struct sock*)sk;
    bpf_core_read(&port, sizeof(port), &inside->__sk_common.skc_num);
    if (port == 0) {
        return 1;
    }
    struct berth_table* table = find_table(bpf_get_netns_cookie(sk), sk->protocol);
    if (!table) {
        return 1;
    }
    const __u64 owner = *owner_of(table, port);
    if (kind_of(owner) != BERTH_HELD && kind_of(owner) != BERTH_CONNECTED) {
        return 1;
    }
    const enum remains remains = what_remains(sk);
    struct berth_mark* mark = count_of(owner) > 0 ? bpf_sk_storage_get(&marks, sk, 0, 0) : 0;
    const int is_marked = mark && mark->pair.port == port;
    /* family 0: a further holder of a port bound by number. */
    if (is_marked && mark->pair.family != 0) {
        release_pair(table, &mark->pair, remains);
    }
    drop_holder(table, port, bpf_get_socket_cookie(sk), is_marked,
                remains == TIME_WAIT);
    return 1;
}
