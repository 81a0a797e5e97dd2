// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is behind a TlsContext. A server has one SSL_CTX more for each of its named identities;
// they differ in nothing but the certificate, and sessions and ticket keys are those of the main
// one. Nothing changes after creation; OpenSSL's counters and its session cache lock themselves.

#include "src/tls/host_names.h"
#include "src/tls/openssl_handles.h"

#include <berth/tls.h>

#include <memory>
#include <string>
#include <vector>

namespace berth::internal {

struct TlsContextState {
    SslContextHandle main;
    bool is_server = false;
    TlsVerification verification = TlsVerification::none;  // of a client
    bool refuses_unknown_names = false;  // of a server: there is no identity for them
    std::vector<unsigned char> alpn;     // as on the wire: a length before each name
    ServerNames names;                   // to an index of `named`
    std::vector<SslContextHandle> named;
};

/// What is behind a TlsSessionTicket: the session, and for whom it may be used.
struct TlsTicketState {
    SessionHandle session;
    std::string host;
    std::shared_ptr<const TlsContextState> context;
};

}  // namespace berth::internal
