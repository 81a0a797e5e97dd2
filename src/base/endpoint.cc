// SPDX-License-Identifier: Apache-2.0
#include <berth/endpoint.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace berth {
namespace {

constexpr std::size_t kPathAt = offsetof(sockaddr_un, sun_path);

Error path_error(std::string_view path, const char* reason) {
    return {Errc::invalid_argument, "use", path, 0, reason, "give 1 to 107 bytes"};
}

}  // namespace

Endpoint::Endpoint(const Address& address) noexcept : storage_{}, size_(address.size()) {
    std::memcpy(&storage_, address.data(), address.size());
}

Result<Endpoint> Endpoint::unix_path(std::string_view path) {
    if (path.empty()) {
        return std::unexpected(path_error(path, "the unix path is empty"));
    }
    const bool is_abstract = path.front() == '@';
    // A path of the file system ends with a zero byte; an abstract name with its size.
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
        return std::unexpected(path_error(path, "the unix path is too long"));
    }
    Endpoint endpoint;
    endpoint.storage_ = {};
    endpoint.storage_.local.sun_family = AF_UNIX;
    std::memcpy(endpoint.storage_.local.sun_path, path.data(), path.size());
    if (is_abstract) {
        endpoint.storage_.local.sun_path[0] = '\0';
    }
    endpoint.size_ = static_cast<socklen_t>(kPathAt + path.size() + (is_abstract ? 0 : 1));
    return endpoint;
}

Result<Endpoint> Endpoint::from(const sockaddr* address, socklen_t size) {
    if (size < sizeof(sa_family_t) || address->sa_family != AF_UNIX) {
        return Endpoint(BERTH_TRY(Address::from(address, size)));
    }
    if (size > sizeof(sockaddr_un)) {
        return std::unexpected(
            Error(Errc::invalid_argument, "use", "unix address", 0, "it is too long"));
    }
    Endpoint endpoint;
    endpoint.storage_ = {};
    std::memcpy(&endpoint.storage_, address, size);
    endpoint.size_ = size;
    return endpoint;
}

Address Endpoint::address() const noexcept {
    return is_unix() ? Address() : Address::from(data(), size_).value_or(Address());
}

std::string Endpoint::to_string() const {
    if (!is_unix()) {
        return address().to_string();
    }
    std::string text = "unix:";
    const std::size_t length = size_ - kPathAt;
    const char* path = storage_.local.sun_path;
    if (size_ <= kPathAt) {
        return text;
    }
    if (path[0] == '\0') {
        return text.append("@").append(path + 1, length - 1);
    }
    return text.append(path, ::strnlen(path, length));
}

bool operator==(const Endpoint& a, const Endpoint& b) noexcept {
    if (a.is_unix() != b.is_unix()) {
        return false;
    }
    if (!a.is_unix()) {
        return a.address() == b.address();
    }
    return a.size_ == b.size_ && std::memcmp(&a.storage_, &b.storage_, a.size_) == 0;
}

}  // namespace berth
