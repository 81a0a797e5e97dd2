// SPDX-License-Identifier: Apache-2.0
// The first byte chooses: a unix path by its text, or a socket address as the kernel gives it.
#include "tests/fuzz/fuzz_input.h"

#include <berth/endpoint.h>

#include <cstring>
#include <string>

using namespace berth;

namespace {

void from_path(std::string_view path) {
    const Result<Endpoint> endpoint = Endpoint::unix_path(path);
    if (endpoint) {
        test::require(endpoint->is_unix(), "a path is of the unix family");
        const Result<Endpoint> again = Endpoint::from(endpoint->data(), endpoint->size());
        test::require(again.has_value() && *again == *endpoint, "what it gives it takes");
    }
    static_cast<void>(endpoint ? endpoint->to_string() : endpoint.error().message());
}

void from_kernel(const std::uint8_t* data, std::size_t size) {
    sockaddr_storage storage{};
    std::memcpy(&storage, data, std::min(size, sizeof storage));
    const Result<Endpoint> endpoint =
        Endpoint::from(reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(size));
    static_cast<void>(endpoint ? endpoint->to_string() : endpoint.error().message());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    if ((data[0] & 1) != 0) {
        from_path(test::text_of(data + 1, size - 1));
    } else {
        from_kernel(data + 1, std::min(size - 1, sizeof(sockaddr_storage)));
    }
    return 0;
}
