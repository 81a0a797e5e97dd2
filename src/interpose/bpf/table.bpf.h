/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps, and the steps that change one port of a table. Each is one atomic instruction or a
 * compare-and-swap, because the agent and programs on other processors change the same words.
 */
#ifndef BERTH_BPF_TABLE_H
#define BERTH_BPF_TABLE_H

#include "src/interpose/bpf/shared.h"

/* A few CPUs can race for one word; whoever loses more often leaves it to the next sync. */
#define OWNER_ATTEMPTS 8

struct one_table {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct berth_table);
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
    __uint(max_entries, 4096);
    __type(key, struct berth_table_key);
    __array(values, struct one_table);
} tables SEC(".maps");

/* Value: 0 while the connection lives; then from when on, in ms, there may be another one. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 1 << 20);
    __type(key, struct berth_pair);
    __type(value, __u64);
} pairs SEC(".maps");

/* Only of sockets that share their port: every other costs nothing here. */
struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct berth_mark);
} marks SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct berth_settings);
} settings SEC(".maps");

static __always_inline __u64 now_ms(void) { return bpf_ktime_get_coarse_ns() / 1000000; }

static __always_inline void count_event(__u64* counter) { __sync_fetch_and_add(counter, 1); }

/* A namespace without a table (one that is newer than the agent's last look) keeps the kernel's
 * own behaviour. */
static __always_inline struct berth_table* find_table(__u64 netns_cookie, __u32 protocol) {
    const struct berth_table_key key = {.netns_cookie = netns_cookie, .protocol = protocol};
    const __u32 zero = 0;
    void* map = bpf_map_lookup_elem(&tables, &key);
    return map ? bpf_map_lookup_elem(map, &zero) : 0;
}

/* The agent has compared the table with the kernel a short while ago. */
static __always_inline int is_valid(const struct berth_table* table, __u64 now) {
    return table->valid_until_ms > now;
}

static __always_inline __u64 bit_of(__u32 port) { return 1ULL << (port & 63); }
static __always_inline __u32 word_of(__u32 port) { return port / 64 & (BERTH_WORDS - 1); }
static __always_inline __s32* free_count_of(struct berth_table* table, __u32 port) {
    return &table->free_counts[port / 64 / BERTH_GROUP_WORDS & (BERTH_GROUPS - 1)];
}

static __always_inline int take_free_bit(struct berth_table* table, __u32 port) {
    __u64* word = &table->free[word_of(port)];
    if (!(*word & bit_of(port)) || !(__sync_fetch_and_and(word, ~bit_of(port)) & bit_of(port))) {
        return 0;
    }
    __sync_fetch_and_add(free_count_of(table, port), -1);
    return 1;
}

static __always_inline void put_free_bit(struct berth_table* table, __u32 port) {
    if (!(__sync_fetch_and_or(&table->free[word_of(port)], bit_of(port)) & bit_of(port))) {
        __sync_fetch_and_add(free_count_of(table, port), 1);
    }
}

static __always_inline __u64 owner_word(enum berth_kind kind, __u64 count, __u64 value) {
    return (__u64)kind << BERTH_KIND_SHIFT | (count & BERTH_COUNT_MASK) << BERTH_COUNT_SHIFT |
           (value & BERTH_VALUE_MASK);
}
static __always_inline __u64 kind_of(__u64 word) { return word >> BERTH_KIND_SHIFT; }
static __always_inline __u64 count_of(__u64 word) {
    return word >> BERTH_COUNT_SHIFT & BERTH_COUNT_MASK;
}
static __always_inline __u64 value_of(__u64 word) { return word & BERTH_VALUE_MASK; }

static __always_inline __u64* owner_of(struct berth_table* table, __u32 port) {
    return &table->owners[port & (BERTH_PORTS - 1)];
}

static __always_inline int replace_owner(struct berth_table* table, __u32 port, __u64 before,
                                         __u64 after) {
    return __sync_val_compare_and_swap(owner_of(table, port), before, after) == before;
}

/* A free bit of a port that has an owner is in vain, and is gone once it has been tried. */
static __always_inline int claim_free_port(struct berth_table* table, __u32 port, __u64 now) {
    if (!take_free_bit(table, port)) {
        return 0;
    }
    if (!replace_owner(table, port, 0, owner_word(BERTH_PENDING, 0, now))) {
        return 0;
    }
    __sync_fetch_and_add(&table->pending_count, 1);
    return 1;
}

#endif
