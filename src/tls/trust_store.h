// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whom a context trusts. A place that holds nothing to trust is an error here: otherwise every
// handshake would fail later with "unknown issuer", which says nothing about the cause.

#include "src/tls/openssl_handles.h"
#include "src/tls/pem.h"

#include <berth/tls.h>

namespace berth::internal {

struct TrustStore {
    StoreHandle store;
    /// Those of `ca_file` and `ca_text`: whom a server names to clients that it asks.
    CertificatesHandle certificates;
};

/// **Errors:** those of reading; invalid_argument; tls_failed when the host has no store.
Result<TrustStore> make_trust_store(const TrustPlaces& places, const char* operation);

}  // namespace berth::internal
