// SPDX-License-Identifier: Apache-2.0
// The requests of the HTTP example: the head, the path and the range.
#include "examples/http_request.h"
#include "examples/http_target.h"
#include "tests/fuzz/fuzz_input.h"

#include <array>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = berth::test::text_of(data, size);
    HttpRequest request;
    static_cast<void>(parse_http_head(text, request));
    std::array<char, 256> room{};
    static_cast<void>(decode_http_path(text, room));
    const std::optional<HttpPart> part = find_http_part(text, 1000);
    berth::test::require(!part || part->offset + part->size <= 1000, "a part lies in its file");
    return 0;
}
