// SPDX-License-Identifier: Apache-2.0
#pragma once

// Certificates for the tests of TLS, made when they are needed: P-256 keys, which cost nothing.

#include "src/tls/openssl_handles.h"

#include <berth/tls.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace berth::tls_test {

inline constexpr std::int64_t kHour_s = 3600;

struct CertificateWish {
    std::string common_name = "test";
    std::vector<std::string> hosts = {};   ///< DNS names and IP addresses.
    std::int64_t valid_from_s = -kHour_s;  ///< Relative to now.
    std::int64_t valid_until_s = 24 * kHour_s;
    bool is_ca = false;
    unsigned rsa_bits = 0;  ///< 0: a P-256 key.
};

/// A certificate with its key, and the intermediate certificates that belong behind it.
struct TestCertificate {
    internal::CertificateHandle certificate;
    internal::KeyHandle key;
    std::string chain_pem;  // the certificate first

    std::string certificate_pem() const;
    std::string key_pem() const;
    std::string encrypted_key_pem(const std::string& password) const;
    /// Both as texts.
    TlsIdentity identity() const;
};

TestCertificate self_signed(const CertificateWish& wish);
TestCertificate issued_by(const TestCertificate& issuer, const CertificateWish& wish);

/// A CA that all tests of this process share, and a certificate of its for one host.
const TestCertificate& test_ca();
TestCertificate certificate_for(const std::string& host);

/// A directory that is gone at the end of the test.
class TemporaryDirectory {
public:
    TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory();

    std::string path() const { return path_; }
    /// Writes a file and returns its path.
    std::string write(const std::string& name, std::string_view text) const;

private:
    std::string path_;
};

}  // namespace berth::tls_test
