// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host names as TLS needs them: what a client asks for, what a certificate is for, and which of a
// server's identities a name gets.

#include "src/tls/openssl_handles.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::internal {

enum class HostKind : std::uint8_t { invalid, name, address };

/// An IPv4 or IPv6 address as text; or a DNS name in ASCII (RFC 1123 and '_'), labels of 1 to 63
/// bytes, without the dot at its end.
HostKind kind_of_host(std::string_view host) noexcept;

/// A host name, or "*." and one.
bool is_name_pattern(std::string_view pattern) noexcept;

/// The DNS names that a certificate is for, as they stand there if they are name patterns.
std::vector<std::string> dns_names_of(X509* certificate);

/// Writes "a.example, 192.0.2.1 and 3 more" for a person: what does not print becomes '?'. Returns
/// what was written; allocates nothing of its own. "no host" when there is none.
std::string_view describe_hosts(X509* certificate, std::span<char> buffer) noexcept;

/// Which identity serves a name. Names compare without regard to case.
class ServerNames {
public:
    /// False when it is there already. `pattern` is a name pattern.
    bool add(std::string_view pattern, std::size_t identity_index);
    /// The identity of exactly this name, else of the wildcard that it matches.
    /// **Cost:** O(log names), allocates nothing.
    std::optional<std::size_t> find(std::string_view name) const noexcept;

private:
    using Entry = std::pair<std::string, std::size_t>;

    std::vector<Entry> entries_;  // sorted; lower case
};

}  // namespace berth::internal
