// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/guest.h"

#include <unistd.h>

#include <cerrno>

namespace berth::internal {

constinit Guest guest;

bool is_own_memory() noexcept {
    const auto self = static_cast<std::uint32_t>(::getpid());
    std::uint32_t owner = guest.process->pid.load(std::memory_order_relaxed);
    if (owner == 0 && guest.process->pid.compare_exchange_strong(owner, self)) {
        return true;
    }
    return owner == self;
}

KeptErrno::KeptErrno() noexcept : saved_(errno) {}

int KeptErrno::answer(int error) const noexcept {
    errno = error == 0 ? saved_ : error;
    return error == 0 ? 0 : -1;
}

}  // namespace berth::internal
