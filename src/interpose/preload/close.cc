// SPDX-License-Identifier: Apache-2.0
// The ways to close a descriptor. Its port is released after the kernel has closed the socket, so
// that nobody draws it before; what it held is taken out of HeldDescriptors before that, because
// the number may be somebody else's at once.
#include "src/interpose/preload/holding.h"
#include "src/interpose/preload/interposed.h"
#include "src/interpose/preload/next_calls.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace berth::internal {
namespace {

// What a descriptor that is about to be closed holds. A child of vfork() closes its own copy only,
// and finds its parent's notes.
Held take_for_close(int fd) noexcept {
    if (!guest.covers(fd) || guest.held.is_empty(fd)) {
        return {};
    }
    if (!guest.held.get(fd).has_port_of_ours()) {
        return guest.held.take(fd);  // a parent that loses this has to ask the kernel again
    }
    const int saved_errno = errno;
    const bool is_ours = is_own_memory();
    errno = saved_errno;
    return is_ours ? guest.held.take(fd) : Held{};
}

void release_after_close(const Held& held) noexcept {
    if (!held.has_port_of_ours()) {
        return;
    }
    const int saved_errno = errno;
    release(held);
    errno = saved_errno;
}

int close_one(int fd) {
    const Held held = take_for_close(fd);
    const int result = next_calls.close(fd);
    release_after_close(held);
    return result;
}

// Those that hold something, one by one; the caller closes the rest.
void close_held(unsigned first, unsigned last) {
    const unsigned end = guest.held.end();
    for (unsigned fd = first; fd < end && fd <= last; ++fd) {
        if (!guest.held.is_empty(static_cast<int>(fd))) close_one(static_cast<int>(fd));
    }
}

// `to` is closed by the kernel when `from` is put in its place.
template <class Duplicate>
int replace(int from, int to, Duplicate duplicate) {
    if (from == to || !guest.covers(to) || guest.held.is_empty(to)) {
        return duplicate();
    }
    const Held held = take_for_close(to);
    const int result = duplicate();
    if (result < 0) {
        const int saved_errno = errno;
        guest.held.replace(to, {}, held);
        errno = saved_errno;
    } else {
        release_after_close(held);
    }
    return result;
}

}  // namespace

BERTH_INTERPOSED int close(int fd) { return close_one(fd); }

BERTH_INTERPOSED int close_range(unsigned first, unsigned last, int flags) noexcept {
    // With CLOSE_RANGE_UNSHARE the others who share the descriptors keep theirs.
    if (flags == 0 && first <= last && guest.is_ready.load(std::memory_order_acquire)) {
        close_held(first, last);
    }
    return next_calls.close_range(first, last, flags);
}

BERTH_INTERPOSED void closefrom(int first) noexcept {
    if (guest.is_ready.load(std::memory_order_acquire)) {
        close_held(first < 0 ? 0U : static_cast<unsigned>(first), ~0U);
    }
    next_calls.closefrom(first);
}

BERTH_INTERPOSED int dup2(int from, int to) noexcept {
    return replace(from, to, [=] { return next_calls.dup2(from, to); });
}

BERTH_INTERPOSED int dup3(int from, int to, int flags) noexcept {
    return replace(from, to, [=] { return next_calls.dup3(from, to, flags); });
}

}  // namespace berth::internal
