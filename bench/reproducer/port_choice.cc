// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/port_choice.h"

#include <cerrno>

namespace berth::bench {

Result<void> KernelChoice::bind(HeldSocket& held) {
    if (::bind(held.socket.fd(), local_.data(), local_.size()) != 0) {
        return std::unexpected(Error::from_errno(errno, "bind"));
    }
    return {};
}

Result<std::uint16_t> KernelChoice::port_of(const HeldSocket& held) {
    return BERTH_TRY(held.socket.local_address()).port();
}

Result<void> TableChoice::bind(HeldSocket& held) {
    held.port = BERTH_TRY(table_.bind(held.socket, local_));
    return {};
}

}  // namespace berth::bench
