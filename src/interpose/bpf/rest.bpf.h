/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ports on their way back. sock_release runs before the kernel lets go of the port (inet_release:
 * first the hook, then close, then unhash): a port given out at that moment is refused. And what
 * was a connection may be in TIME_WAIT. So a port rests first: UDP too.
 *
 * Map n is of the epochs n, n + 4, n + 8 …: when one begins, its map is poured into the free bits.
 * A port that comes to rest while its map is being poured may be free early: no harm but a refusal.
 */
#ifndef BERTH_BPF_REST_H
#define BERTH_BPF_REST_H

#include "src/interpose/bpf/choice.bpf.h"

#define EPOCHS_OF_REST 3
#define SWEEP_INTERVAL_MS 10
#define QUESTION_INTERVAL_MS 100

struct pour {
    struct berth_table* table;
    int is_lengthy;
    __u32 map;
    __u32 first_word;
    int has_freed; /* not how many: the verifier would follow every number there can be */
};

static __always_inline struct berth_rest* rest_of(struct berth_table* table, int is_lengthy) {
    return is_lengthy ? &table->lengthy : &table->brief;
}

static int pour_word(__u32 index, struct pour* pour) {
    struct berth_table* table = pour->table;
    const __u32 word = (pour->first_word + index) & (BERTH_WORDS - 1);
    struct berth_rest* rest = rest_of(table, pour->is_lengthy);
    __u64* resting = &rest->ports[pour->map & (BERTH_REST_MAPS - 1)][word];
    if (*resting == 0) {
        return 0;
    }
    const __u64 taken = __sync_lock_test_and_set(resting, 0);
    __sync_fetch_and_add(&rest->count, -(__s32)__builtin_popcountll(taken));
    const __u64 bits = taken & table->allowed[word];
    const __u64 before = __sync_fetch_and_or(&table->free[word], bits);
    const int freed_count = __builtin_popcountll(bits & ~before);
    __sync_fetch_and_add(&table->free_counts[word / BERTH_GROUP_WORDS], freed_count);
    if (freed_count > 0) {
        pour->has_freed = 1;
    }
    return 0;
}

/* 1: ports are free now that were not. */
__noinline int pour_map(struct berth_table* table, int is_lengthy, __u32 map) {
    if (!table) {
        return 0;
    }
    struct pour pour = {.table = table, .is_lengthy = is_lengthy, .map = map};
    bpf_loop(BERTH_WORDS, pour_word, &pour, 0);
    return pour.has_freed;
}

/* The same where it is done for one call: the words of the range only. What an earlier range has
 * left elsewhere goes with its epoch. */
__noinline int pour_brief_range(struct berth_table* table, __u32 map) {
    if (!table || table->last < table->first || table->last >= BERTH_PORTS) {
        return 0;
    }
    struct pour pour = {
        .table = table, .is_lengthy = 0, .map = map, .first_word = word_of(table->first)};
    bpf_loop(word_of(table->last) - word_of(table->first) + 1, pour_word, &pour, 0);
    return pour.has_freed;
}

static __always_inline void end_rests_of(struct berth_table* table, int is_lengthy, __u64 now) {
    struct berth_rest* rest = rest_of(table, is_lengthy);
    const __u64 epoch_ms = rest->epoch_ms;
    if (epoch_ms == 0) {
        return;
    }
    const __u64 epoch = now / epoch_ms;
    for (__u32 map = 0; map < BERTH_REST_MAPS; ++map) {
        if (rest->epochs[map] + EPOCHS_OF_REST <= epoch) {
            pour_map(table, is_lengthy, map);
        }
    }
}

/* Frees what has rested long enough: the first caller of an epoch does it for all. */
__noinline int end_rests(struct berth_table* table, __u64 now) {
    if (!table) {
        return 0;
    }
    const __u64 due = table->next_pour_ms;
    const __u64 next = now + (table->brief.epoch_ms != 0 ? table->brief.epoch_ms : 1000);
    if (__sync_val_compare_and_swap(&table->next_pour_ms, due, next) != due) {
        return 0;
    }
    end_rests_of(table, 0, now);
    end_rests_of(table, 1, now);
    return 0;
}

/* Without any free port: the oldest of those that rest for no TIME_WAIT. */
static __always_inline int end_oldest_brief_rest(struct berth_table* table) {
    const __u64 epoch_ms = table->brief.epoch_ms;
    if (epoch_ms == 0 || table->brief.count <= 0) {
        return 0;
    }
    const __u64 epoch = now_ms() / epoch_ms;
    for (__u32 age = 1; age <= BERTH_REST_MAPS; ++age) {
        if (pour_brief_range(table, (epoch + age) & (BERTH_REST_MAPS - 1))) {
            count_event(&table->counters.early_rests);
            return 1;
        }
    }
    return 0;
}

__noinline int rest_port(struct berth_table* table, __u32 port, int is_lengthy) {
    if (!table || !(table->allowed[word_of(port)] & bit_of(port))) {
        return 0;
    }
    struct berth_rest* rest = rest_of(table, is_lengthy);
    const __u64 epoch_ms = rest->epoch_ms;
    if (epoch_ms == 0) {
        put_free_bit(table, port);
        return 0;
    }
    const __u64 epoch = now_ms() / epoch_ms;
    const __u32 map = epoch & (BERTH_REST_MAPS - 1);
    const __u64 seen = rest->epochs[map];
    if (seen != epoch && __sync_val_compare_and_swap(&rest->epochs[map], seen, epoch) == seen) {
        pour_map(table, is_lengthy, map);
    }
    if (!(__sync_fetch_and_or(&rest->ports[map][word_of(port)], bit_of(port)) & bit_of(port))) {
        __sync_fetch_and_add(&rest->count, 1);
    }
    return 0;
}

/* Of a port that a socket has taken by number. */
static __always_inline void forget_rest(struct berth_table* table, __u32 port) {
    for (int is_lengthy = 0; is_lengthy < 2; ++is_lengthy) {
        struct berth_rest* rest = rest_of(table, is_lengthy);
        for (__u32 map = 0; map < BERTH_REST_MAPS; ++map) {
            __u64* word = &rest->ports[map][word_of(port)];
            if ((*word & bit_of(port)) &&
                (__sync_fetch_and_and(word, ~bit_of(port)) & bit_of(port))) {
                __sync_fetch_and_add(&rest->count, -1);
            }
        }
    }
}

struct sweep {
    struct berth_table* table;
    __u64 now_ms;
    int has_swept;
};

static int sweep_port(__u32 index, struct sweep* sweep) {
    struct berth_table* table = sweep->table;
    const __u32 port = (table->first + index) & (BERTH_PORTS - 1);
    const __u64 owner = *owner_of(table, port);
    if (kind_of(owner) != BERTH_PENDING || value_of(owner) + BERTH_LEASE_MS > sweep->now_ms) {
        return 0;
    }
    if (replace_owner(table, port, owner, 0)) {
        __sync_fetch_and_add(&table->pending_count, -1);
        count_event(&table->counters.swept);
        rest_port(table, port, 0);
        sweep->has_swept = 1;
    }
    return 0;
}

/* No hook tells of a bind that fails after its port was chosen (EADDRNOTAVAIL comes later, and so
 * does the refusal of a port that an unknown socket holds): what has been PENDING for a second is
 * given back. Looked for when ports run out, 60 us at most every 10 ms; the agent does it too. */
static __always_inline int sweep_pending(struct berth_table* table) {
    const __u64 now = now_ms();
    const __u64 next = table->next_sweep_ms;
    if (table->pending_count <= 0 || now < next ||
        __sync_val_compare_and_swap(&table->next_sweep_ms, next, now + SWEEP_INTERVAL_MS) != next) {
        return 0;
    }
    struct sweep sweep = {.table = table, .now_ms = now, .has_swept = 0};
    bpf_loop(table->last - table->first + 1, sweep_port, &sweep, 0);
    return sweep.has_swept;
}

/* A port for a socket, PENDING until the socket has it; 0: none is left, or none for certain. */
__noinline int choose_port(struct berth_table* table, __u64 now) {
    if (!table) {
        return 0;
    }
    if (now >= table->next_pour_ms) {
        end_rests(table, now);
    }
    int port = draw_port(table, now);
    if (port == 0 && end_oldest_brief_rest(table)) {
        port = draw_port(table, now);
    }
    if (port == 0 && sweep_pending(table) && end_oldest_brief_rest(table)) {
        port = draw_port(table, now);
    }
    return port;
}

/* Ports have run out, but the table may be wrong: one may rest for a TIME_WAIT that never was, a
 * failed bind may have left one PENDING, a stranger may have gone. So the kernel is asked now and
 * then; and every time while it finds some, which is cheap. The agent is asked to look as well. */
static __always_inline int is_kernel_asked(struct berth_table* table) {
    table->wants_sync = 1;
    const __u64 now = now_ms();
    const __u64 next = table->next_question_ms;
    if (now < next || __sync_val_compare_and_swap(&table->next_question_ms, next,
                                                  now + QUESTION_INTERVAL_MS) != next) {
        count_event(&table->counters.refused);
        return 0;
    }
    count_event(&table->counters.left_to_kernel);
    return 1;
}

#endif
