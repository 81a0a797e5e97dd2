// SPDX-License-Identifier: Apache-2.0
#pragma once

// A page of memory that the kernel zeroes in a forked child (MADV_WIPEONFORK, Linux 4.14). What a
// child must not inherit (the state of a random stream, the identity of its process) is kept valid
// by a token in this page: a child finds 0 and makes a new one. Unlike pthread_atfork() this also
// covers fork by a raw system call.

#include <atomic>
#include <cstdint>

namespace berth::internal {

struct ForkPage {
    std::atomic<std::uint64_t> token;         // 0: not yet made in this process
    std::atomic<std::uint64_t> process_word;  // see base/process.h; 0: not yet made
};

/// The page, mapped on first use. Never null.
ForkPage& map_fork_page() noexcept;

inline std::atomic<ForkPage*> fork_page_address{nullptr};

inline ForkPage& fork_page() noexcept {
    ForkPage* page = fork_page_address.load(std::memory_order_acquire);
    return page != nullptr ? *page : map_fork_page();
}

/// Makes the token of this process.
std::uint64_t renew_fork_token(ForkPage& page) noexcept;

/// A value that is the same throughout a process and another in each of its children. Never 0.
inline std::uint64_t fork_token() noexcept {
    ForkPage& page = fork_page();
    const std::uint64_t token = page.token.load(std::memory_order_relaxed);
    return token != 0 ? token : renew_fork_token(page);
}

}  // namespace berth::internal
