// SPDX-License-Identifier: Apache-2.0
#pragma once

// How often a thread asks for memory. The program that links this has malloc(), calloc() and
// realloc() of its own, which count and pass on; under a sanitizer, which does the same, nothing is
// counted.

#include <cstdint>

namespace berth::bench {

/// Whether this build counts.
bool counts_allocations() noexcept;

/// From now on each allocation of the calling thread adds one to `*counter`, which may lie in
/// memory shared with another process; null: not any more.
void count_allocations_into(std::uint64_t* counter) noexcept;

}  // namespace berth::bench
