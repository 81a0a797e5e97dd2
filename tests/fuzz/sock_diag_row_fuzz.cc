// SPDX-License-Identifier: Apache-2.0
// One netlink message of an inet_diag dump.
#include "src/ports/sock_diag.h"
#include "tests/fuzz/fuzz_input.h"

#include <linux/netlink.h>

#include <cstring>
#include <memory>

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // Exactly as large as its header says, so that a read beyond is seen.
    const std::size_t total = sizeof(nlmsghdr) + size;
    const auto memory = std::make_unique<std::uint64_t[]>(total / sizeof(std::uint64_t) + 1);
    auto* message = reinterpret_cast<nlmsghdr*>(memory.get());
    message->nlmsg_len = static_cast<std::uint32_t>(total);
    std::memcpy(message + 1, data, size);
    static_cast<void>(internal::parse_diag_row(*message));
    return 0;
}
