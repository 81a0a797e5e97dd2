/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The choice of a port, uniform over the free ones, at a cost that does not grow with occupancy:
 * four probes anywhere in the range; then the n-th free port, n at random, found by the counts of
 * 64 groups and the words of one; and when the counts were wrong six times, any free port at all.
 *
 * The loops have no branches: the verifier follows every path of a loop with branches, and gave up
 * after a million instructions on a first version that had some. What must branch in a loop is the
 * body of a bpf_loop(), which is verified once.
 */
#ifndef BERTH_BPF_CHOICE_H
#define BERTH_BPF_CHOICE_H

#include "src/interpose/bpf/random.bpf.h"
#include "src/interpose/bpf/table.bpf.h"

#define PROBES 4
#define RANKED_ATTEMPTS 6
#define LOST_RACE (-1)

/* 1 if a < b, for values below 2^63. */
static __always_inline __u64 is_less(__u64 a, __u64 b) { return (a - b) >> 63; }

/* A racing pair of add and subtract may show a count below zero for a moment. The compiler must not
 * see that this is a maximum, for which it would branch. */
static __always_inline __u64 not_negative(__s32 count) {
    __s32 sign = count >> 31;
    barrier_var(sign);
    return (__u32)(count & ~sign);
}

/* Halves the search for the bit of rank `*rank`; returns how far it lies at least. */
static __always_inline __u64 select_step(__u64* word, __u64* rank, int width) {
    const __u64 count = __builtin_popcountll(*word & ((1ULL << width) - 1));
    const __u64 is_above = 1 - is_less(*rank, count);
    *rank -= count * is_above;
    *word >>= width * is_above;
    return width * is_above;
}

/* Where the set bit of this rank is, counted from the lowest; anything when there are fewer. */
static __always_inline __u64 select_bit(__u64 word, __u64 rank) {
    __u64 position = select_step(&word, &rank, 32);
    position += select_step(&word, &rank, 16);
    position += select_step(&word, &rank, 8);
    position += select_step(&word, &rank, 4);
    position += select_step(&word, &rank, 2);
    return position + select_step(&word, &rank, 1);
}

/* 0: no port is free, by the counts. */
static __always_inline int draw_ranked(struct berth_table* table, __u64 now) {
    __u64 total = 0;
    for (int i = 0; i < BERTH_GROUPS; ++i) {
        total += not_negative(table->free_counts[i]);
    }
    if (total == 0 || total >= BERTH_PORTS) {
        return 0;
    }
    const __u64 rank = random_below(table, total);
    __u64 passed = 0, rest = rank, group = 0;
    for (int i = 0; i < BERTH_GROUPS; ++i) {
        const __u64 count = not_negative(table->free_counts[i]);
        passed += count;
        const __u64 is_beyond = 1 - is_less(rank, passed);
        group += is_beyond;
        rest -= count * is_beyond;
    }
    group &= BERTH_GROUPS - 1;
    const __u64 rank_in_group = rest;
    __u64 index = 0;
    passed = 0;
    for (int i = 0; i < BERTH_GROUP_WORDS; ++i) {
        const __u64 count = __builtin_popcountll(table->free[group * BERTH_GROUP_WORDS + i]);
        passed += count;
        const __u64 is_beyond = 1 - is_less(rank_in_group, passed);
        index += is_beyond;
        rest -= count * is_beyond;
    }
    if (index >= BERTH_GROUP_WORDS) {
        return LOST_RACE;
    }
    const __u32 word = (group * BERTH_GROUP_WORDS + index) & (BERTH_WORDS - 1);
    const __u32 port = word * 64 + (select_bit(table->free[word], rest) & 63);
    return claim_free_port(table, port, now) ? (int)port : LOST_RACE;
}

struct scan {
    struct berth_table* table;
    __u64 now;
    __u32 first_word;
    int port;
};

static int scan_word(__u32 index, struct scan* scan) {
    const __u32 word = (scan->first_word + index) & (BERTH_WORDS - 1);
    const __u64 bits = scan->table->free[word];
    if (bits == 0) {
        return 0;
    }
    const __u32 port = word * 64 + (select_bit(bits, 0) & 63);
    if (claim_free_port(scan->table, port, scan->now)) {
        scan->port = (int)port;
        return 1;
    }
    return 0;
}

/* A global function is verified once, not in each program and on each path to it. */
__noinline int draw_ranked_port(struct berth_table* table, __u64 now) {
    return table ? draw_ranked(table, now) : 0;
}

/* A free port, which is PENDING now; 0: there is none. */
__noinline int draw_port(struct berth_table* table, __u64 now) {
    if (!table || table->last < table->first || table->last >= BERTH_PORTS) {
        return 0;
    }
    const __u32 size = table->last - table->first + 1;
    for (int i = 0; i < PROBES; ++i) {
        const __u32 port = table->first + random_below(table, size);
        if (claim_free_port(table, port, now)) {
            return port & (BERTH_PORTS - 1);
        }
    }
    for (int i = 0; i < RANKED_ATTEMPTS; ++i) {
        const int port = draw_ranked_port(table, now);
        if (port >= 0) {
            return port;
        }
    }
    struct scan scan = {
        .table = table, .now = now, .first_word = random_below(table, BERTH_WORDS), .port = 0};
    bpf_loop(BERTH_WORDS, scan_word, &scan, 0);
    return scan.port;
}

#endif
