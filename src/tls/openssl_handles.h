// SPDX-License-Identifier: Apache-2.0
#pragma once

// OpenSSL's objects with their owners.

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace berth::internal {

template <auto kFree>
struct FreeBy {
    template <class T>
    void operator()(T* object) const noexcept {
        kFree(object);
    }
};

inline void free_certificates(STACK_OF(X509) * certificates) noexcept {
    sk_X509_pop_free(certificates, X509_free);
}

using BioHandle = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using CertificateHandle = std::unique_ptr<X509, FreeBy<X509_free>>;
using CertificatesHandle = std::unique_ptr<STACK_OF(X509), FreeBy<free_certificates>>;
using KeyHandle = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using NamesHandle = std::unique_ptr<GENERAL_NAMES, FreeBy<GENERAL_NAMES_free>>;
using SessionHandle = std::unique_ptr<SSL_SESSION, FreeBy<SSL_SESSION_free>>;
using SslContextHandle = std::unique_ptr<SSL_CTX, FreeBy<SSL_CTX_free>>;
using SslHandle = std::unique_ptr<SSL, FreeBy<SSL_free>>;
using StoreHandle = std::unique_ptr<X509_STORE, FreeBy<X509_STORE_free>>;

}  // namespace berth::internal
