/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Random numbers: SipHash-1-3 of a counter, under a key that each table gets from getrandom().
 * Not bpf_get_prandom_u32(): that is taus113, a linear generator whose state follows from its
 * output (CVE-2020-16166), and a port is guarded by nothing but being hard to guess.
 *
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF".
 */
#ifndef BERTH_BPF_RANDOM_H
#define BERTH_BPF_RANDOM_H

#include "src/interpose/bpf/shared.h"

struct sip_state {
    __u64 v0, v1, v2, v3;
};

static __always_inline __u64 rotate_left(__u64 x, int bits) { return x << bits | x >> (64 - bits); }

static __always_inline void sip_round(struct sip_state* s) {
    s->v0 += s->v1;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v0 = rotate_left(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v2 = rotate_left(s->v2, 32);
}

static __always_inline __u64 sip_hash(__u64 key0, __u64 key1, __u64 message) {
    struct sip_state s = {
        .v0 = 0x736f6d6570736575ULL ^ key0,
        .v1 = 0x646f72616e646f6dULL ^ key1,
        .v2 = 0x6c7967656e657261ULL ^ key0,
        .v3 = 0x7465646279746573ULL ^ key1,
    };
    const __u64 length_block = 8ULL << 56;
    s.v3 ^= message;
    sip_round(&s);
    s.v0 ^= message;
    s.v3 ^= length_block;
    sip_round(&s);
    s.v0 ^= length_block;
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

static __always_inline __u64 next_random(struct berth_table* table) {
    const __u64 message = __sync_fetch_and_add(&table->counter, 1);
    return sip_hash(table->key[0], table->key[1], message);
}

/* Below `bound` <= 65535, from 48 random bits: a value is at most 2^-32 more likely than another.
 */
static __always_inline __u64 random_below(struct berth_table* table, __u64 bound) {
    return (next_random(table) >> 16) * bound >> 48;
}

#endif
