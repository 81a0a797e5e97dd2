// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state of berth inside a program that is not berth's: the maps of the run's files, and what
// this process holds. Made once by a constructor, before main(); where anything is missing or not
// as expected it is not made, and every call goes straight through.
//
// Rules of this folder: no allocation, no lock, no exception, nothing of libstdc++ at run time;
// errno is left alone by a call that succeeds; whatever is not understood is the kernel's.

#include "src/interpose/held_descriptors.h"
#include "src/interpose/run_page.h"
#include "src/ports/table_core.h"

#include <atomic>
#include <cstdint>
#include <optional>

namespace berth::internal {

/// Zeroed by the kernel in a forked child.
struct ProcessPage {
    ForkPage fork;
    std::atomic<std::uint32_t> pid;        // 0: not yet asked
    std::atomic<std::int32_t> held_count;  // ports that this process holds
};

struct Guest {
    /// False: every call is the kernel's.
    std::atomic<bool> is_ready{false};
    RunPage* page = nullptr;
    ProcessPage* process = nullptr;
    std::uint64_t netns_cookie = 0;
    HeldDescriptors held;
    std::optional<TableCore> tables[2];  // index: Protocol

    TableCore& table(Protocol protocol) noexcept {
        return *tables[static_cast<unsigned>(protocol)];
    }
    const RunOptions& options() const noexcept { return page->options; }
    /// A descriptor that a call may be changed for.
    bool covers(int fd) const noexcept {
        return is_ready.load(std::memory_order_acquire) && held.covers(fd);
    }
};

extern Guest guest;  // NOLINT(bugprone-dynamic-static-initializers): constinit, see guest.cc

/// False in a child of vfork(), which shares its parent's memory but not its descriptors.
/// **Cost:** one system call.
bool is_own_memory() noexcept;

/// Restores errno, unless told to set another.
class KeptErrno {
public:
    KeptErrno() noexcept;
    /// What a system call would return: 0, or −1 and errno.
    int answer(int error) const noexcept;

private:
    int saved_;
};

}  // namespace berth::internal
