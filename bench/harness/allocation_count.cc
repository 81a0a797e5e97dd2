// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/allocation_count.h"

#include <cstddef>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define BERTH_COUNTS_ALLOCATIONS 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#undef BERTH_COUNTS_ALLOCATIONS
#endif
#endif

namespace {

// Read by malloc() before main() and after the last destructor: it must need neither.
thread_local std::uint64_t* allocation_counter = nullptr;

}  // namespace

namespace berth::bench {

bool counts_allocations() noexcept {
#ifdef BERTH_COUNTS_ALLOCATIONS
    return true;
#else
    return false;
#endif
}

void count_allocations_into(std::uint64_t* counter) noexcept { allocation_counter = counter; }

}  // namespace berth::bench

#ifdef BERTH_COUNTS_ALLOCATIONS

namespace {

void count() noexcept {
    if (allocation_counter != nullptr) {
        ++*allocation_counter;
    }
}

}  // namespace

// The C library's own functions behind these, and their free(), stay in use. Visible, so that the
// shared libraries call these too.
extern "C" {

// NOLINTBEGIN(readability-identifier-naming): the C library has given these names.
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
// NOLINTEND(readability-identifier-naming)

[[gnu::visibility("default")]] void* malloc(std::size_t size) {
    count();
    return __libc_malloc(size);
}

[[gnu::visibility("default")]] void* calloc(std::size_t item_count, std::size_t size) {
    count();
    return __libc_calloc(item_count, size);
}

[[gnu::visibility("default")]] void* realloc(void* memory, std::size_t size) {
    count();
    return __libc_realloc(memory, size);
}
}

#endif
