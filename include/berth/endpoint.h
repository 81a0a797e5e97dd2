// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a socket is: an internet address with a port, or a unix path. What bind() and connect()
// take, as a value.

#include <berth/address.h>
#include <berth/error.h>
#include <berth/export.h>

#include <sys/un.h>

#include <string>
#include <string_view>

namespace berth {

class BERTH_API Endpoint {
public:
    /// 0.0.0.0:0
    Endpoint() noexcept : Endpoint(Address()) {}
    /// Implicit: an address is an endpoint.
    Endpoint(const Address& address) noexcept;  // NOLINT(google-explicit-constructor)
    /// A path of the file system, at most 107 bytes, or "@name" for an abstract name.
    /// **Errors:** invalid_argument for an empty or a longer one.
    static Result<Endpoint> unix_path(std::string_view path);
    /// **Errors:** invalid_argument for another family, or a size that does not fit it.
    static Result<Endpoint> from(const sockaddr* address, socklen_t size);

    bool is_unix() const noexcept { return storage_.base.sa_family == AF_UNIX; }
    /// The internet address; 0.0.0.0:0 of a unix path.
    Address address() const noexcept;
    int domain() const noexcept { return storage_.base.sa_family; }
    const sockaddr* data() const noexcept { return &storage_.base; }
    socklen_t size() const noexcept { return size_; }
    /// As Address::to_string(), "unix:/run/x", "unix:@name", or "unix:" for one without a name.
    std::string to_string() const;

    friend BERTH_API bool operator==(const Endpoint& a, const Endpoint& b) noexcept;

private:
    union Storage {
        sockaddr base;
        sockaddr_in v4;
        sockaddr_in6 v6;
        sockaddr_un local;
    } storage_;
    socklen_t size_;
};

}  // namespace berth
