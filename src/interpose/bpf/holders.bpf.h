/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who holds a port, when sockets take it and leave it. The first holder is known by its cookie, and
 * costs one word. Others beside it (SO_REUSEPORT groups, two addresses with one port) are counted,
 * and have a mark of their own, so that an accepted socket, which has the port too but has not
 * taken it, is not counted when it leaves.
 */
#ifndef BERTH_BPF_HOLDERS_H
#define BERTH_BPF_HOLDERS_H

#include "src/interpose/bpf/rest.bpf.h"

/* What a socket does to a port that has an owner: 0: it is the holder now; 1: it is one more. */
static __always_inline __u64 with_holder(__u64 owner, __u64 cookie, int* is_further) {
    *is_further = 0;
    switch (kind_of(owner)) {
        case BERTH_HELD:
        case BERTH_CONNECTED:
            *is_further = 1;
            return owner + (1ULL << BERTH_COUNT_SHIFT);
        default:
            return owner_word(BERTH_HELD, 0, cookie);
    }
}

/* Perhaps: it may also be the program's, by number. A bind that had its port from the table is over
 * sooner; what has been PENDING for longer had failed, and the kernel has given it to another. */
static __always_inline int is_kernels_choice(__u64 owner) {
    return kind_of(owner) != BERTH_PENDING || value_of(owner) + SWEEP_INTERVAL_MS < now_ms();
}

/* The socket has the port, and the kernel agrees. */
static __always_inline void note_holder(struct berth_table* table, __u32 port, __u64 cookie,
                                        void* sk) {
    for (int attempt = 0; attempt < OWNER_ATTEMPTS; ++attempt) {
        const __u64 owner = *owner_of(table, port);
        int is_further = 0;
        const __u64 wanted = with_holder(owner, cookie, &is_further);
        if (kind_of(owner) == BERTH_HELD && value_of(owner) == (cookie & BERTH_VALUE_MASK)) {
            return;
        }
        if (is_further && count_of(owner) == BERTH_COUNT_MASK) {
            return; /* The agent finds it when the last of those that are counted has gone. */
        }
        if (is_further) {
            struct berth_mark* mark =
                bpf_sk_storage_get(&marks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
            if (!mark || mark->pair.port == port) {
                return;
            }
            if (replace_owner(table, port, owner, wanted)) {
                mark->pair.port = port;
                return;
            }
            continue;
        }
        if (!replace_owner(table, port, owner, wanted)) {
            continue;
        }
        if (kind_of(owner) == BERTH_PENDING) {
            __sync_fetch_and_add(&table->pending_count, -1);
        } else {
            count_event(&table->counters.noted);
        }
        if (is_kernels_choice(owner)) {
            table->next_question_ms = 0; /* There may be more. */
        }
        if (!take_free_bit(table, port) && kind_of(owner) != BERTH_PENDING) {
            forget_rest(table, port);
        }
        return;
    }
}

/* The owner when the first holder has gone; when one of the others has. */
static __always_inline __u64 without_first(__u64 owner) {
    return count_of(owner) == 0 ? 0 : owner & ~BERTH_VALUE_MASK;
}
static __always_inline __u64 without_further(__u64 owner) {
    const __u64 left = owner - (1ULL << BERTH_COUNT_SHIFT);
    return count_of(left) == 0 && value_of(left) == 0 ? 0 : left;
}

/* A holder leaves; the last one puts the port to rest. */
static __always_inline void drop_holder(struct berth_table* table, __u32 port, __u64 cookie,
                                        int is_marked, int is_lengthy) {
    for (int attempt = 0; attempt < OWNER_ATTEMPTS; ++attempt) {
        const __u64 owner = *owner_of(table, port);
        const int is_held = kind_of(owner) == BERTH_HELD;
        const int is_first = is_held && value_of(owner) == (cookie & BERTH_VALUE_MASK);
        const int is_counted =
            is_marked && count_of(owner) > 0 && (is_held || kind_of(owner) == BERTH_CONNECTED);
        if (!is_first && !is_counted) {
            return;
        }
        const __u64 left = is_first ? without_first(owner) : without_further(owner);
        if (!replace_owner(table, port, owner, left)) {
            continue;
        }
        if (left == 0) {
            count_event(&table->counters.released);
            rest_port(table, port, is_lengthy);
        }
        return;
    }
}

#endif
