// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

/// Aborts on a broken invariant; always on. Never for what a user or the kernel may cause.
#define BERTH_ASSERT(condition)                                                             \
    (__builtin_expect(static_cast<bool>(condition), 1)                                      \
         ? static_cast<void>(0)                                                             \
         : (static_cast<void>(std::fprintf(stderr, "berth: broken invariant: %s (%s:%d)\n", \
                                           #condition, __FILE__, __LINE__)),                \
            std::abort()))
