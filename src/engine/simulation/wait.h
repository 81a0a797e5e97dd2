// SPDX-License-Identifier: Apache-2.0
#pragma once

// Waiting: time jumps from event to event until something is ready or the timeout is over.

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include <ctime>
#include <span>

namespace berth::internal::simulated {

class EpollInstance;
struct Kernel;

// All answer the number of ready descriptors or minus errno. `is_spurious`: one more descriptor is
// reported than is ready, chosen by the dice.

int wait_epoll(Kernel& kernel, EpollInstance& epoll, std::span<epoll_event> events,
               const timespec* timeout, bool is_spurious);
int wait_poll(Kernel& kernel, std::span<pollfd> descriptors, const timespec* timeout,
              bool is_spurious);

/// The bit sets of a select(), each of `count` bits; null: nothing of that kind.
struct SelectSets {
    int count = 0;
    fd_set* read = nullptr;
    fd_set* write = nullptr;
    fd_set* except = nullptr;
};
int wait_select(Kernel& kernel, const SelectSets& sets, const timespec* timeout, bool is_spurious);

}  // namespace berth::internal::simulated
