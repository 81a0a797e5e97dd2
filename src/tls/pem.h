// SPDX-License-Identifier: Apache-2.0
#pragma once

// Certificates and keys from PEM files and texts, checked when they are read.

#include "src/tls/openssl_handles.h"

#include <berth/tls.h>

#include <string>

namespace berth::internal {

struct LoadedIdentity {
    CertificateHandle certificate;
    CertificatesHandle intermediates;
    KeyHandle key;
};

/// The certificate, what stands behind it, and the key that belongs to it.
/// **Errors:** those of reading; invalid_argument.
Result<LoadedIdentity> load_identity(const TlsIdentity& identity);

/// Where certificates to trust are; the options call them so, a server's with "client_" before.
struct TrustPlaces {
    const std::string& ca_file;
    const std::string& ca_text;
    const std::string& ca_directory;
    bool use_system_store;

    bool are_named() const noexcept {
        return !ca_file.empty() || !ca_text.empty() || !ca_directory.empty() || use_system_store;
    }
};

/// All certificates of `ca_file` and `ca_text`; an empty stack when neither is named.
/// **Errors:** those of reading; invalid_argument.
Result<CertificatesHandle> load_trusted_certificates(const TrustPlaces& places);

}  // namespace berth::internal
