// SPDX-License-Identifier: Apache-2.0
#include "src/base/fork_page.h"

#include "src/base/assert.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace berth::internal {

ForkPage& map_fork_page() noexcept {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BERTH_ASSERT(memory != MAP_FAILED);
    BERTH_ASSERT(madvise(memory, size, MADV_WIPEONFORK) == 0);
    auto* page = new (memory) ForkPage{};
    ForkPage* existing = nullptr;
    if (fork_page_address.compare_exchange_strong(existing, page, std::memory_order_acq_rel)) {
        return *page;
    }
    munmap(memory, size);
    return *existing;
}

std::uint64_t renew_fork_token(ForkPage& page) noexcept {
    std::uint64_t fresh = 0;
    while (fresh == 0) {
        const ssize_t size = getrandom(&fresh, sizeof fresh, 0);
        BERTH_ASSERT(size == sizeof fresh || errno == EINTR);
    }
    std::uint64_t expected = 0;
    return page.token.compare_exchange_strong(expected, fresh) ? fresh : expected;
}

}  // namespace berth::internal
