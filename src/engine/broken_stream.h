// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a stream breaks. The kernel tells of a broken connection once: who receives after a send was
// told finds an end of the stream that looks as if all had come. So the engine remembers.

#include <berth/operation.h>

#include <cerrno>

namespace berth::internal {

inline bool is_stream_write(const Operation& operation) noexcept {
    return operation.kind == OperationKind::send || operation.kind == OperationKind::send_file ||
           (operation.kind == OperationKind::splice &&
            static_cast<const SpliceOperation&>(operation).into_socket);
}

/// Whether a send that fails so has learnt that the connection is no more.
inline bool is_loss(int system_errno) noexcept {
    return system_errno == ECONNRESET || system_errno == ETIMEDOUT ||
           system_errno == EHOSTUNREACH || system_errno == ENETUNREACH;
}

inline bool is_end_of_stream(const Operation& operation, int result) noexcept {
    return result == 0 && (operation.kind == OperationKind::receive_lent ||
                           (operation.kind == OperationKind::receive &&
                            static_cast<const ReceiveOperation&>(operation).room() != 0));
}

}  // namespace berth::internal
