/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel structures that the programs look into. Only the names matter: where a field lies
 * is found when the programs are loaded (CO-RE).
 */
#ifndef BERTH_BPF_KERNEL_TYPES_H
#define BERTH_BPF_KERNEL_TYPES_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
    __u16 skc_num;
    unsigned long skc_flags;
};

struct sock {
    struct sock_common __sk_common;
    unsigned long sk_lingertime;
};

enum sock_flags { SOCK_LINGER = 4 };

/* Since 6.6: bit INET_FLAGS_BIND_ADDRESS_NO_PORT of inet_flags; the range is one word. */
struct inet_sock {
    unsigned long inet_flags;
    __u32 local_port_range;
};

/* 6.3 to 6.5 */
struct inet_sock___two_halves {
    struct {
        __u16 lo;
        __u16 hi;
    } local_port_range;
};

/* Before 6.6 */
struct inet_sock___bit_field {
    __u8 bind_address_no_port : 1;
};

#pragma clang attribute pop

#endif
