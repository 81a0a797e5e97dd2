// SPDX-License-Identifier: Apache-2.0
#include "src/tls/tls_error.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/tls1.h>

namespace berth::internal {
namespace {

struct ErrorText {
    int reason_code;
    const char* reason;
    const char* remedy;
};

constexpr const char* kNoTls = "the peer does not speak TLS";
constexpr const char* kNoTlsRemedy = "check the port; some protocols start TLS on request";
constexpr const char* kCompareVersions = "compare minimum_version of both sides";
constexpr const char* kCompareCiphers =
    "compare the ciphers of both sides, and the kinds of their keys";
constexpr const char* kCompareAlpn = "compare alpn of both sides";
constexpr const char* kDamaged = "a record was damaged or forged on its way";
constexpr const char* kOwnCertificate = "look at the certificate and the chain in identity";

constexpr int alert(int description) { return SSL_AD_REASON_OFFSET + description; }

constexpr ErrorText kErrorTexts[] = {
    {SSL_R_WRONG_VERSION_NUMBER, kNoTls, kNoTlsRemedy},
    {SSL_R_HTTP_REQUEST, "the peer sent plain HTTP", kNoTlsRemedy},
    {SSL_R_HTTPS_PROXY_REQUEST, "the peer sent a plain HTTP request to a proxy", kNoTlsRemedy},
    {SSL_R_UNSUPPORTED_PROTOCOL, "no TLS version in common", kCompareVersions},
    {SSL_R_VERSION_TOO_LOW, "the peer's TLS version is too old", kCompareVersions},
    {SSL_R_NO_SHARED_CIPHER, "no cipher in common", kCompareCiphers},
    {SSL_R_NO_APPLICATION_PROTOCOL, "no ALPN protocol in common", kCompareAlpn},
    {SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, kDamaged, nullptr},
    {SSL_R_BAD_RECORD_TYPE, kDamaged, nullptr},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "the client sent no certificate",
     "give the client an identity"},
    {alert(SSL_AD_BAD_RECORD_MAC), "a record was damaged on its way to the peer", nullptr},
    {alert(SSL_AD_HANDSHAKE_FAILURE), "the peer found no parameters in common (handshake_failure)",
     kCompareCiphers},
    {alert(SSL_AD_BAD_CERTIFICATE), "the peer calls this side's certificate bad (bad_certificate)",
     kOwnCertificate},
    {alert(SSL_AD_CERTIFICATE_EXPIRED),
     "this side's certificate has expired, the peer says (certificate_expired)", "renew it"},
    {alert(SSL_AD_CERTIFICATE_UNKNOWN),
     "the peer does not accept this side's certificate (certificate_unknown)", kOwnCertificate},
    {alert(SSL_AD_UNKNOWN_CA), "the peer does not trust this side's certificate (unknown_ca)",
     "have the peer trust its CA, or send the whole chain"},
    {alert(SSL_AD_PROTOCOL_VERSION), "the peer accepts no TLS version of this side",
     kCompareVersions},
    {alert(SSL_AD_INSUFFICIENT_SECURITY), "the peer wants stronger ciphers", kCompareCiphers},
    {alert(SSL_AD_INTERNAL_ERROR), "the peer reports an error of its own (internal_error)",
     "look at the peer's log"},
    {alert(SSL_AD_UNRECOGNIZED_NAME), "the peer serves no host of this name (unrecognized_name)",
     "connect by a name that it serves"},
    {alert(SSL_AD_CERTIFICATE_REQUIRED), "the peer demands a client certificate",
     "give one by identity"},
    {alert(SSL_AD_NO_APPLICATION_PROTOCOL), "no ALPN protocol in common, the peer says",
     kCompareAlpn},
};

unsigned long take_cause() noexcept {
    const unsigned long oldest = ERR_get_error();
    unsigned long entry = oldest;
    while (entry != 0 && ERR_GET_LIB(entry) != ERR_LIB_SSL) {
        entry = ERR_get_error();
    }
    ERR_clear_error();
    return entry != 0 ? entry : oldest;
}

const char* reason_of(unsigned long entry) noexcept {
    const char* reason = ERR_reason_error_string(entry);
    return reason != nullptr ? reason : "OpenSSL gives no reason";
}

}  // namespace

Error take_openssl_error(const char* operation, std::string_view subject) noexcept {
    const unsigned long entry = take_cause();
    const int reason_code = ERR_GET_REASON(entry);
    if (reason_code == ERR_R_MALLOC_FAILURE) {
        return {Errc::out_of_memory, operation, subject};
    }
    if (ERR_GET_LIB(entry) == ERR_LIB_SSL) {
        for (const ErrorText& text : kErrorTexts) {
            if (text.reason_code == reason_code) {
                return {Errc::tls_failed, operation, subject, 0, text.reason, text.remedy};
            }
        }
    }
    return {Errc::tls_failed, operation, subject, 0, reason_of(entry)};
}

const char* take_openssl_reason() noexcept { return reason_of(take_cause()); }

std::string path_subject(std::string_view path) {
    constexpr std::size_t kSubjectLimit = 63;
    if (path.size() <= kSubjectLimit) {
        return std::string(path);
    }
    return "..." + std::string(path.substr(path.size() - kSubjectLimit + 3));
}

}  // namespace berth::internal
