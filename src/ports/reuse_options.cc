// SPDX-License-Identifier: Apache-2.0
#include "src/ports/reuse_options.h"

#include "src/base/system_calls.h"

#include <cerrno>

namespace berth::internal {

Result<void> ReuseOptions::set(Option& option, int name, bool is_on) {
    if (option.now == is_on) {
        return {};
    }
    const int value = is_on ? 1 : 0;
    if (calls().setsockopt(fd_, SOL_SOCKET, name, &value, sizeof value) != 0) {
        return std::unexpected(Error::from_errno(
            errno, "set", name == SO_REUSEADDR ? "SO_REUSEADDR" : "SO_REUSEPORT"));
    }
    option.now = is_on;
    return {};
}

Result<void> ReuseOptions::set_for(Sharing sharing) {
    BERTH_TRY(set(reuse_address_, SO_REUSEADDR, sharing == Sharing::reuse_address));
    BERTH_TRY(set(reuse_port_, SO_REUSEPORT, sharing == Sharing::reuse_port));
    reuse_address_.afterwards |= sharing == Sharing::reuse_address;
    reuse_port_.afterwards |= sharing == Sharing::reuse_port;
    return {};
}

ReuseOptions::~ReuseOptions() {
    // The kernel accepted the opposite value a moment ago; it does not refuse this one.
    static_cast<void>(set(reuse_address_, SO_REUSEADDR, reuse_address_.afterwards));
    static_cast<void>(set(reuse_port_, SO_REUSEPORT, reuse_port_.afterwards));
}

}  // namespace berth::internal
