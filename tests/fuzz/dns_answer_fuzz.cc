// SPDX-License-Identifier: Apache-2.0
// The answers of the DNS example.
#include "examples/dns_message.h"
#include "tests/fuzz/fuzz_input.h"

#include <span>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::optional<DnsQuery> query = make_dns_query(1, "example.org", DnsType::a);
    DnsAnswer answer;
    static_cast<void>(read_dns_answer(std::span(data, size), *query, answer));
    return 0;
}
