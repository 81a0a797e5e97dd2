// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/tracked.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace berth::test::stress {
namespace {

template <std::size_t N>
bool is_among(int system_errno, const std::array<int, N>& errors) noexcept {
    return std::ranges::find(errors, system_errno) != errors.end();
}

}  // namespace

// EINTR, EAGAIN, EINPROGRESS and their like are the library's business, and reach nobody.
bool may_fail_with(OperationKind kind, int system_errno) noexcept {
    if (is_among(system_errno, std::array{ENOMEM, ENOSPC})) {
        return true;
    }
    switch (kind) {
        case OperationKind::accept:
            return is_among(system_errno, std::array{EMFILE, ENFILE, ENOBUFS});
        case OperationKind::connect:
            return is_among(system_errno, std::array{ECONNREFUSED, ECONNRESET, EHOSTUNREACH,
                                                     ENETUNREACH, EADDRNOTAVAIL, ENOBUFS});
        case OperationKind::receive:
        case OperationKind::receive_lent:
            return is_among(system_errno, std::array{ECONNRESET, EPIPE});
        case OperationKind::send:
        case OperationKind::send_file:
        case OperationKind::splice:
        case OperationKind::wait:
            return is_among(system_errno, std::array{ECONNRESET, EPIPE, ENOBUFS});
        case OperationKind::write:
            return system_errno == EPIPE;
        case OperationKind::receive_from:
        case OperationKind::receive_batch:
            return system_errno == ECONNREFUSED;
        case OperationKind::send_to:
        case OperationKind::send_batch:
            return is_among(system_errno, std::array{ECONNREFUSED, ENOBUFS, ENOENT, ECONNRESET,
                                                     EMSGSIZE, EPIPE, EPERM, ENOTCONN});
        default:
            return false;
    }
}

}  // namespace berth::test::stress
