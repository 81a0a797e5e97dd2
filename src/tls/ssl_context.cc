// SPDX-License-Identifier: Apache-2.0
#include "src/tls/ssl_context.h"

#include "src/tls/host_names.h"
#include "src/tls/pem.h"
#include "src/tls/tls_error.h"

#include <openssl/err.h>

namespace berth::internal {
namespace {

constexpr unsigned char kSessionIdContext[] = {'b', 'e', 'r', 't', 'h'};

int number_of(TlsVersion version) noexcept {
    return version == TlsVersion::tls_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
}

Result<void> use_ciphers(SSL_CTX* context, const SslContextSettings& settings) {
    const auto refusal = [&](const std::string& list, const char* reason, const char* remedy) {
        ERR_clear_error();
        return std::unexpected(
            Error(Errc::invalid_argument, settings.operation, list, 0, reason, remedy));
    };
    if (!settings.ciphers_1_2.empty() &&
        SSL_CTX_set_cipher_list(context, settings.ciphers_1_2.c_str()) != 1) {
        return refusal(settings.ciphers_1_2, "ciphers_1_2 names no cipher that OpenSSL has",
                       "see 'openssl ciphers -tls1_2'");
    }
    if (!settings.ciphers_1_3.empty() &&
        SSL_CTX_set_ciphersuites(context, settings.ciphers_1_3.c_str()) != 1) {
        return refusal(settings.ciphers_1_3, "ciphers_1_3 names a cipher that OpenSSL has not",
                       "see 'openssl ciphers -tls1_3 -s'");
    }
    return {};
}

}  // namespace

Result<SslContextHandle> make_ssl_context(const SslContextSettings& settings) {
    ERR_clear_error();
    SslContextHandle context(
        SSL_CTX_new(settings.is_server ? TLS_server_method() : TLS_client_method()));
    if (context == nullptr) {
        return std::unexpected(take_openssl_error(settings.operation, {}));
    }
    SSL_CTX* raw = context.get();
    if (settings.minimum_version > settings.maximum_version) {
        return std::unexpected(Error(Errc::invalid_argument, settings.operation, {}, 0,
                                     "minimum_version is above maximum_version"));
    }
    if (SSL_CTX_set_min_proto_version(raw, number_of(settings.minimum_version)) != 1 ||
        SSL_CTX_set_max_proto_version(raw, number_of(settings.maximum_version)) != 1) {
        return std::unexpected(take_openssl_error(settings.operation, "minimum_version"));
    }
    SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    // An idle session gives its two record buffers back, 34 KiB. Nobody asks a CA store at every
    // handshake for what should have been in certificate_file.
    SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_session_id_context(raw, kSessionIdContext, sizeof kSessionIdContext);
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(raw), X509_V_FLAG_PARTIAL_CHAIN);
    BERTH_TRY(use_ciphers(raw, settings));
    return context;
}

Result<std::vector<std::string>> use_identity(SSL_CTX* context, const TlsIdentity& identity) {
    const LoadedIdentity loaded = BERTH_TRY(load_identity(identity));
    if (SSL_CTX_use_cert_and_key(context, loaded.certificate.get(), loaded.key.get(),
                                 loaded.intermediates.get(), 1) != 1) {
        const std::string& file = identity.certificate_file;
        return std::unexpected(Error(Errc::invalid_argument, "use tls certificate",
                                     file.empty() ? "certificate_text" : path_subject(file), 0,
                                     take_openssl_reason()));
    }
    return dns_names_of(loaded.certificate.get());
}

Result<void> use_trust(SSL_CTX* context, int mode, const TrustStore& trust) {
    // A longer list might not fit into the message that asks for a certificate; none means any.
    constexpr int kNamedCaLimit = 100;
    SSL_CTX_set_verify(context, mode, nullptr);
    SSL_CTX_set1_cert_store(context, trust.store.get());
    STACK_OF(X509)* certificates = trust.certificates.get();
    if (SSL_CTX_get_ssl_method(context) != TLS_server_method() ||
        sk_X509_num(certificates) > kNamedCaLimit) {
        return {};
    }
    for (int i = 0; i < sk_X509_num(certificates); ++i) {
        if (SSL_CTX_add_client_CA(context, sk_X509_value(certificates, i)) != 1) {
            return std::unexpected(take_openssl_error("use tls ca", {}));
        }
    }
    return {};
}

Result<std::vector<unsigned char>> encode_alpn(const std::vector<std::string>& names) {
    constexpr std::size_t kNameLimit = 255;
    constexpr std::size_t kListLimit = 65535;
    std::vector<unsigned char> encoded;
    for (const std::string& name : names) {
        if (name.empty() || name.size() > kNameLimit) {
            return std::unexpected(Error(Errc::invalid_argument, "use tls alpn", name, 0,
                                         "a protocol's name has 1 to 255 bytes"));
        }
        encoded.push_back(static_cast<unsigned char>(name.size()));
        encoded.insert(encoded.end(), name.begin(), name.end());
    }
    if (encoded.size() > kListLimit) {
        return std::unexpected(Error(Errc::invalid_argument, "use tls alpn", {}, 0,
                                     "all names together have more than 65535 bytes"));
    }
    return encoded;
}

}  // namespace berth::internal
