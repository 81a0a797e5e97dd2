/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * connect() without a port. bpf_bind() is the only way to choose one here, and a bound port belongs
 * to one socket, where the kernel's own connect() shares it between destinations. So TCP sockets
 * are bound with SO_REUSEADDR, and the map `pairs` says which port is in use towards which
 * destination. Fresh ports first; then shared ones, found by random probes. The option stays set,
 * where a program can see it: taken back, the kernel refuses the next one to share the port.
 *
 * Cost: an entry of `pairs` and a mark for each connection, about 1 us and 200 bytes. Limits: with
 * no fresh port left, a destination that already has 98 % of all ports is found another with
 * 256 probes in 99 % of all cases; then the kernel goes on (and finds none: to its own connect()
 * bound ports are no candidates). Right after a search in vain the next ones make 32 probes, so
 * that who tries and tries is refused fast; they find a destination with half of its ports left one
 * all the same. IP_LOCAL_PORT_RANGE, which would keep sharing without all this,
 * is -EINVAL for bpf_setsockopt().
 */
#ifndef BERTH_BPF_CONNECTION_H
#define BERTH_BPF_CONNECTION_H

#include "src/interpose/bpf/holders.bpf.h"

#define FRESH_ATTEMPTS 4
#define SHARING_PROBES 256
#define SCARCE_PROBES 32
#define SCARCE_MS 10
#define SHARING_ATTEMPTS 2
#define LAST_ACK_MS 1000

/* An IPv4 destination written as IPv6 is the IPv4 destination. `is_v6` is a constant everywhere:
 * the verifier refuses a program of one family the fields of the other. */
static __always_inline void describe_destination(struct bpf_sock_addr* ctx, int is_v6,
                                                 __u64 netns_cookie, struct berth_pair* pair) {
    pair->netns_cookie = netns_cookie;
    pair->remote_port = (__u16)ctx->user_port;
    pair->family = AF_INET;
    if (!is_v6) {
        pair->remote[0] = ctx->user_ip4;
        return;
    }
    const __u32 a = ctx->user_ip6[0], b = ctx->user_ip6[1];
    const __u32 c = ctx->user_ip6[2], d = ctx->user_ip6[3];
    if (a == 0 && b == 0 && c == bpf_htonl(0xffff)) {
        pair->remote[0] = d;
        return;
    }
    pair->family = AF_INET6;
    pair->remote[0] = a;
    pair->remote[1] = b;
    pair->remote[2] = c;
    pair->remote[3] = d;
}

/* As the kernel's tcp_twsk_unique() has it. */
static __always_inline int is_local(const struct berth_pair* pair) {
    if (pair->family == AF_INET) {
        return (bpf_ntohl(pair->remote[0]) >> 24) == 127;
    }
    return pair->remote[0] == 0 && pair->remote[1] == 0 && pair->remote[2] == 0 &&
           pair->remote[3] == bpf_htonl(1);
}

static __always_inline int claim_pair(const struct berth_pair* pair) {
    const __u64 live = 0;
    if (bpf_map_update_elem(&pairs, pair, &live, BPF_NOEXIST) == 0) {
        return 1;
    }
    __u64* from_ms = bpf_map_lookup_elem(&pairs, pair);
    if (!from_ms) {
        return 0;
    }
    const __u64 seen = *from_ms;
    return seen != 0 && seen < now_ms() && __sync_val_compare_and_swap(from_ms, seen, live) == seen;
}

/* What is left of a connection when its socket is closed. */
enum remains {
    NOTHING,
    LAST_ACK,  /* the other side was first: until that has acknowledged */
    TIME_WAIT, /* of the connection, or of those that a listener has accepted */
};

/* To this host the last acknowledgement comes at once. */
static __always_inline __u64 pair_rest_ms(const struct berth_table* table,
                                          const struct berth_pair* pair, enum remains remains) {
    switch (remains) {
        case NOTHING:
            return 0;
        case LAST_ACK:
            return is_local(pair) ? 0 : LAST_ACK_MS;
        default:
            return is_local(pair) ? table->local_pair_rest_ms : table->remote_pair_rest_ms;
    }
}

static __always_inline void release_pair(const struct berth_table* table,
                                         const struct berth_pair* pair, enum remains remains) {
    const __u64 rest_ms = pair_rest_ms(table, pair, remains);
    if (rest_ms == 0) {
        bpf_map_delete_elem(&pairs, pair);
        return;
    }
    __u64* from_ms = bpf_map_lookup_elem(&pairs, pair);
    if (from_ms) {
        *from_ms = now_ms() + rest_ms;
    }
}

/* One more connection from a port that has some, or that rests after one. */
static __always_inline int join_port(struct berth_table* table, __u32 port) {
    const __u64 owner = *owner_of(table, port);
    const __u64 one = 1ULL << BERTH_COUNT_SHIFT;
    if (kind_of(owner) == BERTH_CONNECTED && count_of(owner) < BERTH_COUNT_MASK) {
        return replace_owner(table, port, owner, owner + one);
    }
    if (owner != 0 || !(table->allowed[word_of(port)] & bit_of(port))) {
        return 0;
    }
    if (!replace_owner(table, port, 0, owner_word(BERTH_CONNECTED, 1, 0))) {
        return 0;
    }
    if (!take_free_bit(table, port)) {
        forget_rest(table, port);
    }
    return 1;
}

struct search {
    struct berth_table* table;
    struct berth_pair pair;
    __u32 size;
    int port;
};

static int try_sharing(__u32 index, struct search* search) {
    struct berth_table* table = search->table;
    const __u32 port = (table->first + random_below(table, search->size)) & (BERTH_PORTS - 1);
    const __u64 owner = *owner_of(table, port);
    if (owner != 0 && kind_of(owner) != BERTH_CONNECTED) {
        return 0;
    }
    search->pair.port = port;
    if (!claim_pair(&search->pair)) {
        return 0;
    }
    if (!join_port(table, port)) {
        bpf_map_delete_elem(&pairs, &search->pair);
        return 0;
    }
    search->port = port;
    return 1;
}

/* bpf_bind() to the address that the socket has (it may have one without a port, by
 * IP_BIND_ADDRESS_NO_PORT). */
static __always_inline int bind_to(struct bpf_sock_addr* ctx, int is_v6, struct bpf_sock* sk,
                                   __u32 port) {
    if (!is_v6) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = bpf_htons(port)};
        v4.sin_addr.s_addr = sk->src_ip4;
        return bpf_bind(ctx, (struct sockaddr*)&v4, sizeof(v4));
    }
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = bpf_htons(port)};
    v6.sin6_addr.s6_addr32[0] = sk->src_ip6[0];
    v6.sin6_addr.s6_addr32[1] = sk->src_ip6[1];
    v6.sin6_addr.s6_addr32[2] = sk->src_ip6[2];
    v6.sin6_addr.s6_addr32[3] = sk->src_ip6[3];
    return bpf_bind(ctx, (struct sockaddr*)&v6, sizeof(v6));
}

static __always_inline int bind_shareably(struct bpf_sock_addr* ctx, int is_v6, struct bpf_sock* sk,
                                          __u32 port) {
    int on = 1;
    if (bpf_setsockopt(ctx, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
        return -1;
    }
    return bind_to(ctx, is_v6, sk, port);
}

/* The kernel has refused the port: a socket holds it that the table does not know. */
static __always_inline void mark_kernel_held(struct berth_table* table, __u32 port) {
    const __u64 owner = *owner_of(table, port);
    if (kind_of(owner) != BERTH_PENDING) {
        return;
    }
    if (replace_owner(table, port, owner, owner_word(BERTH_KERNEL, 0, now_ms()))) {
        __sync_fetch_and_add(&table->pending_count, -1);
        count_event(&table->counters.refused_by_kernel);
    }
}

static __always_inline void settle_pending(struct berth_table* table, __u32 port, __u64 wanted) {
    const __u64 owner = *owner_of(table, port);
    if (kind_of(owner) == BERTH_PENDING && replace_owner(table, port, owner, wanted)) {
        __sync_fetch_and_add(&table->pending_count, -1);
        count_event(&table->counters.given);
    }
}

/* Free, but towards this destination in TIME_WAIT still. */
static __always_inline void put_pending_to_rest(struct berth_table* table, __u32 port) {
    const __u64 owner = *owner_of(table, port);
    if (kind_of(owner) == BERTH_PENDING && replace_owner(table, port, owner, 0)) {
        __sync_fetch_and_add(&table->pending_count, -1);
        rest_port(table, port, 1);
    }
}

/* -1: the kernel takes over. */
static __always_inline int connect_from_fresh_port(struct bpf_sock_addr* ctx, int is_v6,
                                                   struct bpf_sock* sk, struct berth_table* table,
                                                   struct berth_mark* mark) {
    for (int attempt = 0; attempt < FRESH_ATTEMPTS; ++attempt) {
        const int port = choose_port(table, now_ms());
        if (port <= 0) {
            return -1;
        }
        mark->pair.port = port;
        if (!claim_pair(&mark->pair)) {
            put_pending_to_rest(table, port);
            continue;
        }
        if (bind_shareably(ctx, is_v6, sk, port) == 0) {
            settle_pending(table, port, owner_word(BERTH_CONNECTED, 1, 0));
            return 0;
        }
        bpf_map_delete_elem(&pairs, &mark->pair);
        mark_kernel_held(table, port);
    }
    return -1;
}

static __always_inline int connect_from_shared_port(struct bpf_sock_addr* ctx, int is_v6,
                                                    struct bpf_sock* sk, struct berth_table* table,
                                                    struct berth_mark* mark) {
    struct search search = {.table = table, .pair = mark->pair};
    search.size = table->last - table->first + 1;
    for (int attempt = 0; attempt < SHARING_ATTEMPTS; ++attempt) {
        const int is_scarce = now_ms() < table->scarce_until_ms;
        search.port = 0;
        bpf_loop(is_scarce ? SCARCE_PROBES : SHARING_PROBES, try_sharing, &search, 0);
        if (search.port == 0) {
            if (!is_scarce) table->scarce_until_ms = now_ms() + SCARCE_MS;
            return -1;
        }
        mark->pair.port = search.port;
        if (bind_shareably(ctx, is_v6, sk, search.port) == 0) {
            count_event(&table->counters.shared);
            return 0;
        }
        bpf_map_delete_elem(&pairs, &mark->pair);
        drop_holder(table, search.port, 0, 1, 1);
    }
    return -1;
}

static __always_inline void connect_tcp(struct bpf_sock_addr* ctx, int is_v6, struct bpf_sock* sk,
                                        struct berth_table* table, __u64 netns_cookie) {
    struct berth_mark* mark = bpf_sk_storage_get(&marks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!mark) {
        return;
    }
    describe_destination(ctx, is_v6, netns_cookie, &mark->pair);
    if (connect_from_fresh_port(ctx, is_v6, sk, table, mark) == 0 ||
        connect_from_shared_port(ctx, is_v6, sk, table, mark) == 0) {
        return;
    }
    table->wants_sync = 1;
    count_event(&table->counters.left_to_kernel);
    bpf_sk_storage_delete(&marks, sk);
}

/* 0: refused. */
static __always_inline int connect_udp(struct bpf_sock_addr* ctx, int is_v6, struct bpf_sock* sk,
                                       struct berth_table* table) {
    for (int attempt = 0; attempt < FRESH_ATTEMPTS; ++attempt) {
        const int port = choose_port(table, now_ms());
        if (port <= 0) {
            return is_kernel_asked(table);
        }
        if (bind_to(ctx, is_v6, sk, port) == 0) {
            settle_pending(table, port, owner_word(BERTH_HELD, 0, bpf_get_socket_cookie(ctx)));
            return 1;
        }
        mark_kernel_held(table, port);
    }
    return 1;
}

#endif
