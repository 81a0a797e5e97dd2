/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs in the kernel and the process that loads them both read and write. Plain C: the
 * BPF compiler and C++ include it.
 *
 * A table is the ports of one {network namespace, protocol}: one memory-mapped map of one value,
 * found by its key in the map `tables`. The programs see the value itself; user space maps the
 * same memory and changes it by the same atomic steps, so no change of either is ever lost.
 *
 *      free bit ──take──▶ owner PENDING ──post_bind──▶ owner HELD ──sock_release──▶ resting bit
 *          ▲                   │ the kernel refused it, no hook tells          │
 *          └───────────────────┴──────────── rest, sweep, sync ◀───────────────┘
 *
 * The owner word is the truth: a port is given out only by a step from "nobody" to PENDING. A free
 * bit is a candidate, a count is a hint.
 */
#ifndef BERTH_BPF_SHARED_H
#define BERTH_BPF_SHARED_H

#ifdef __cplusplus
#include <linux/types.h>
#endif

/* The names are those of C. NOLINTBEGIN(readability-identifier-naming) */

#define BERTH_TABLE_VERSION 2

#define BERTH_PORTS 65536
#define BERTH_WORDS 1024
#define BERTH_GROUP_WORDS 16
#define BERTH_GROUPS 64
#define BERTH_REST_MAPS 4

/* Who has a port: a kind in the top 3 bits, a number of sockets in 13, a value in 48. */
#define BERTH_KIND_SHIFT 61
#define BERTH_COUNT_SHIFT 48
#define BERTH_COUNT_MASK 0x1fffULL
#define BERTH_VALUE_MASK 0xffffffffffffULL

enum berth_kind {
    BERTH_NOBODY = 0,    /* free, resting, or not known: the bits say which */
    BERTH_PENDING = 1,   /* chosen, the bind is under way; value: since when, in ms */
    BERTH_HELD = 2,      /* value: cookie of the first holder, 0 when it is gone; count: others */
    BERTH_CONNECTED = 3, /* count: TCP connections that share it, one a destination */
    BERTH_KERNEL = 4,    /* a socket the programs have not seen; value: since when, in ms */
};

/* Ports on their way back. A port rests from one to one and a half periods: three epochs. */
struct berth_rest {
    __u64 epoch_ms; /* half the rest period; 0: no rest */
    __s32 count;    /* a hint */
    __u32 unused;
    __u64 epochs[BERTH_REST_MAPS]; /* which epoch each map is of */
    __u64 ports[BERTH_REST_MAPS][BERTH_WORDS];
};

/* What has been done since the table was made. */
struct berth_counters {
    __u64 given;          /* ports chosen by a program */
    __u64 refused;        /* calls told at once that no port is left */
    __u64 left_to_kernel; /* no port found but not certain: the kernel's own choice */
    __u64 noted;          /* ports that a socket took by itself */
    __u64 released;
    __u64 shared; /* connections that share a port with another destination */
    __u64 early_rests;
    __u64 swept; /* pending ports whose bind never came */
    __u64 refused_by_kernel;
};

struct berth_table {
    __u64 key[2];  /* of the random numbers */
    __u64 counter; /* of the random numbers */
    /* CLOCK_MONOTONIC: from then on the programs step aside, because nobody compares the table
     * with the kernel any more. 0: the table is only being filled. */
    __u64 valid_until_ms;
    __u32 first; /* of the port range */
    __u32 last;
    __u32 wants_sync; /* set when ports ran out in doubt, taken back by the agent */
    __s32 pending_count;
    __u64 next_pour_ms; /* when ports may have rested long enough */
    __u64 next_sweep_ms;
    __u64 next_question_ms; /* when the kernel may be asked again, ports having run out */
    __u64 scarce_until_ms;  /* a search for a port to share has just been in vain */
    /* For how long the kernel refuses a connection to go from a port to a destination once more,
     * when the one before was closed from here first: TIME_WAIT, or what tcp_tw_reuse leaves of
     * it. To this host, and to others. */
    __u32 local_pair_rest_ms;
    __u32 remote_pair_rest_ms;
    struct berth_counters counters;
    __s32 free_counts[BERTH_GROUPS]; /* hints: free bits of 1,024 ports each */
    __u64 free[BERTH_WORDS];         /* bit n: port n may be given out */
    __u64 allowed[BERTH_WORDS];      /* bit n: port n may ever be given out */
    struct berth_rest brief;         /* after a close that leaves nothing behind */
    struct berth_rest lengthy;       /* where TIME_WAIT or accepted sockets may remain */
    __u64 owners[BERTH_PORTS];
};

struct berth_table_key {
    __u64 netns_cookie;
    __u32 protocol;
    __u32 unused;
};

/* A TCP connection's claim: nobody else in this namespace connects to the destination from it. */
struct berth_pair {
    __u64 netns_cookie;
    __u32 remote[4]; /* as the socket has it: IPv4 in the first word, marked by the family */
    __u16 family;
    __u16 remote_port; /* network order */
    __u16 port;
    __u16 unused;
};

/* Of a socket that shares its port: what its release has to undo. */
struct berth_mark {
    struct berth_pair pair; /* family 0: a further holder in a SO_REUSEPORT group */
};

/* Written when the programs are attached; pinned with them. */
struct berth_settings {
    __u32 version;
    __u32 table_size;
    __u16 first; /* 0: each namespace's own range */
    __u16 last;
    __u32 brief_rest_ms;
    __u32 lengthy_rest_ms;
    __u32 unused;
    char cgroup[256];
    __u64 excluded[BERTH_WORDS]; /* ports never to be given out */
};

#define BERTH_LEASE_MS 1000

/* NOLINTEND(readability-identifier-naming) */

#endif
