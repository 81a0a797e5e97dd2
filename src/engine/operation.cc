// SPDX-License-Identifier: Apache-2.0
#include <berth/awaitable.h>
#include <berth/operation.h>

#include "src/loop/loop_state.h"

#include <array>
#include <cerrno>

namespace berth {
namespace {

constexpr std::array kNames = {
    "nothing",   "accept",        "connect",    "receive", "receive", "send",  "receive from",
    "send to",   "receive batch", "send batch", "poll",    "read",    "write", "splice",
    "send file", "close",         "timer",      "wait",    "post",
};
static_assert(kNames.size() == static_cast<std::size_t>(OperationKind::post) + 1);

}  // namespace

const char* to_string(OperationKind kind) noexcept {
    return kNames[static_cast<std::size_t>(kind)];
}

Error Operation::error() const noexcept {
    if (system_errno() == EAFNOSUPPORT) {
        return {Errc::invalid_argument,
                to_string(kind),
                {},
                EAFNOSUPPORT,
                "the address is of another family than the socket"};
    }
    return Error::from_errno(system_errno(), to_string(kind));
}

Error ConnectOperation::error() const noexcept {
    return port_error ? *port_error
                      : Error::from_errno(system_errno(), "connect", remote.to_string());
}

void Operation::cancel() noexcept {
    if (is_pending()) {
        loop_state->cancel(*this, -ECANCELED);
    }
}

void Operation::abandon() noexcept { loop_state->abandon(*this); }

namespace internal {

Start submit(LoopState* loop, Operation& operation, SlotHandle slot, Deadline deadline) noexcept {
    if (loop == nullptr) {
        operation.result = -EBADF;
        return Start::done;
    }
    if (operation.kind == OperationKind::timer) {
        loop->start_timer(operation, deadline);
        return Start::pending;
    }
    return loop->submit(operation, slot, deadline);
}

}  // namespace internal
}  // namespace berth
