// SPDX-License-Identifier: Apache-2.0
#pragma once

// One try at an operation by plain system calls that do not wait. Readiness engines do everything
// this way; io_uring what it has no entry for.

#include "src/engine/lent_pool.h"

#include <berth/operation.h>

#include <poll.h>

#include <array>
#include <cstddef>
#include <span>

namespace berth::internal {

/// The result, or -EAGAIN when the descriptor is not ready. What was done in part (a long send) is
/// noted in the operation, and the next attempt goes on from there. Sockets need no O_NONBLOCK, but
/// for accept, connect, send_file and splice.
int attempt(Operation& operation, int fd, LentPool& lent) noexcept;

/// What an operation waits for, and needs, by its kind.
struct OperationTraits {
    bool waits_for_output = false;
    bool needs_nonblocking = false;  // its system call has no flag that keeps it from waiting
    bool asks_the_kernel = false;    // it asks poll() itself, whatever was told before
};

constexpr OperationTraits traits_of(OperationKind kind) noexcept {
    using enum OperationKind;
    return {
        .waits_for_output = kind == connect || kind == send || kind == send_to ||
                            kind == send_batch || kind == write || kind == send_file,
        .needs_nonblocking =
            kind == accept || kind == connect || kind == send_file || kind == splice,
        .asks_the_kernel = kind == poll || kind == read || kind == write,
    };
}

inline constexpr auto kOperationTraits = [] {
    std::array<OperationTraits, static_cast<std::size_t>(OperationKind::post) + 1> all;
    for (std::size_t kind = 0; kind < all.size(); ++kind) {
        all[kind] = traits_of(static_cast<OperationKind>(kind));
    }
    return all;
}();

inline const OperationTraits& traits_of(const Operation& operation) noexcept {
    return kOperationTraits[static_cast<std::size_t>(operation.kind)];
}

/// The operation waits for POLLIN (else for POLLOUT, a poll operation for what it names).
inline bool waits_for_input(const Operation& operation) noexcept {
    if (operation.kind == OperationKind::poll) [[unlikely]] {
        return (static_cast<const PollOperation&>(operation).events & POLLOUT) == 0;
    }
    if (operation.kind == OperationKind::splice) [[unlikely]] {
        return !static_cast<const SpliceOperation&>(operation).into_socket;
    }
    return !traits_of(operation).waits_for_output;
}

/// Whether a call that waits for `events` would, as poll() says now.
bool would_block(int fd, short events) noexcept;

/// Writes what a pipe that is ready takes without waiting. The result, as attempt().
int write_to_pipe(int pipe, std::span<const std::byte> bytes) noexcept;

/// -EBADF when somebody else has closed it. Every other error leaves it closed too (close(2)).
int close_descriptor(int fd) noexcept;

/// There is no room for anything: the result is 0, whatever is there.
inline bool has_no_room(const Operation& operation) noexcept {
    switch (operation.kind) {
        case OperationKind::receive:
            return static_cast<const ReceiveOperation&>(operation).room() == 0;
        case OperationKind::accept:
            return static_cast<const AcceptOperation&>(operation).accepted.empty();
        case OperationKind::receive_batch:
            return static_cast<const ReceiveBatchOperation&>(operation).datagrams.empty();
        default:
            return false;
    }
}

/// It need not wait until its descriptor is told to be ready.
inline bool is_always_tried(const Operation& operation) noexcept {
    return traits_of(operation).asks_the_kernel || has_no_room(operation);
}

/// How a cancelled operation that has sent a part of its bytes leaves its stream.
bool has_sent_in_part(const Operation& operation) noexcept;

}  // namespace berth::internal
