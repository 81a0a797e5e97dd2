// SPDX-License-Identifier: Apache-2.0
// ip_local_port_range and ip_local_reserved_ports, as the kernel writes them.
#include "src/ports/namespace_settings.h"
#include "tests/fuzz/fuzz_input.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = test::text_of(data, size);
    const Result<PortRange> range = internal::parse_port_range(text);
    test::require(!range || range->is_valid(), "an accepted range is valid");
    const Result<std::vector<PortRange>> reserved = internal::parse_reserved_ports(text);
    if (reserved) {
        for (const PortRange& part : *reserved) {
            test::require(part.first <= part.last, "an accepted part is a range");
        }
    }
    return 0;
}
