// SPDX-License-Identifier: Apache-2.0
#pragma once

// An SSL_CTX with the settings that every session of berth has, and those that the options name.

#include "src/tls/openssl_handles.h"
#include "src/tls/trust_store.h"

#include <berth/tls.h>

#include <string>
#include <vector>

namespace berth::internal {

/// What client and server options have in common.
struct SslContextSettings {
    const char* operation;  // for errors: "make tls client context"
    bool is_server;
    TlsVersion minimum_version;
    TlsVersion maximum_version;
    const std::string& ciphers_1_2;
    const std::string& ciphers_1_3;
};

Result<SslContextHandle> make_ssl_context(const SslContextSettings& settings);

/// Makes `context` show this certificate. Returns the certificate's DNS names.
Result<std::vector<std::string>> use_identity(SSL_CTX* context, const TlsIdentity& identity);

/// `mode` is SSL_VERIFY_*; a server names its CAs to the clients that it asks.
Result<void> use_trust(SSL_CTX* context, int mode, const TrustStore& trust);

/// ALPN names as on the wire: a length before each.
Result<std::vector<unsigned char>> encode_alpn(const std::vector<std::string>& names);

}  // namespace berth::internal
