// SPDX-License-Identifier: Apache-2.0
// The name that a client asks a TLS server for, and those that stand in certificates and options.
#include "src/tls/host_names.h"
#include "tests/fuzz/fuzz_input.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = test::text_of(data, size);
    const std::size_t middle = text.find('\n');
    const std::string_view pattern = text.substr(0, middle);
    const std::string_view name =
        middle == std::string_view::npos ? pattern : text.substr(middle + 1);
    const std::string_view relative = name.substr(0, name.size() - (name.ends_with('.') ? 1 : 0));
    const bool is_host = internal::kind_of_host(relative) != internal::HostKind::invalid;
    internal::ServerNames names;
    if (!internal::is_name_pattern(pattern)) {
        test::require(internal::kind_of_host(pattern) != internal::HostKind::name,
                      "every host name is a pattern");
        static_cast<void>(names.find(name));
        return 0;
    }
    test::require(names.add(pattern, 7), "the first is new");
    test::require(!names.add(pattern, 8), "the second is not");
    const bool is_found = names.find(name).has_value();
    test::require(!is_found || is_host, "only a host matches, with or without its last dot");
    test::require(names.find(relative).has_value() == is_found || relative.ends_with('.'),
                  "a last dot changes nothing");
    if (pattern.front() != '*') {
        test::require(names.find(pattern) == 7, "a name is found by itself");
    }
    return 0;
}
