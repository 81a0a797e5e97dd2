// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the processor can do beyond the baseline of its architecture.

#if defined(__x86_64__)
#ifdef BERTH_IS_A_GUEST
// The header is written for C; clang does not know this name in C++.
#define _Bool bool  // NOLINT(readability-identifier-naming)
#include <sys/platform/x86.h>
#undef _Bool
#endif

namespace berth::internal {

#ifdef BERTH_IS_A_GUEST
// The dynamic linker has asked already. Asking once more takes ten CPUID instructions, 100
// microseconds in a virtual machine, at the start of every program.
inline bool has_avx2() noexcept { return CPU_FEATURE_ACTIVE(AVX2); }
inline bool has_popcnt() noexcept { return CPU_FEATURE_ACTIVE(POPCNT); }
inline bool has_bmi2() noexcept { return CPU_FEATURE_ACTIVE(BMI2); }
#else
inline bool has_avx2() noexcept { return __builtin_cpu_supports("avx2") != 0; }
inline bool has_popcnt() noexcept { return __builtin_cpu_supports("popcnt") != 0; }
inline bool has_bmi2() noexcept { return __builtin_cpu_supports("bmi2") != 0; }
#endif

}  // namespace berth::internal
#endif
