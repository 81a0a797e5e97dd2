// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

#ifdef BERTH_IS_A_GUEST
// Code that runs inside a program that is not berth's must never end it. Those who use it there
// make sure beforehand of what is asserted.
#define BERTH_ASSERT(condition) static_cast<void>(condition)
#else
/// Aborts on a broken invariant; always on. Never for what a user or the kernel may cause.
#define BERTH_ASSERT(condition)                                                             \
    (__builtin_expect(static_cast<bool>(condition), 1)                                      \
         ? static_cast<void>(0)                                                             \
         : (static_cast<void>(std::fprintf(stderr, "berth: broken invariant: %s (%s:%d)\n", \
                                           #condition, __FILE__, __LINE__)),                \
            std::abort()))
#endif
