// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace berth::test {

/// Sends `text` over the unix socket, and `descriptor` along with it (SCM_RIGHTS). The test fails
/// when that does.
void send_descriptor(int socket, std::string_view text, int descriptor);

}  // namespace berth::test
