// SPDX-License-Identifier: Apache-2.0
#include "tests/tls/test_certificates.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace berth::tls_test {
namespace {

using internal::BioHandle;
using internal::CertificateHandle;
using internal::KeyHandle;

// A test's certificates must be there; anything else is an error in the test.
void require(bool condition, const char* what) {
    if (!condition) throw std::runtime_error(what);
}

std::string text_in(const BioHandle& bio) {
    BUF_MEM* memory = nullptr;
    BIO_get_mem_ptr(bio.get(), &memory);
    return {memory->data, memory->length};
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    require(extension != nullptr, "an X.509 extension");
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

bool is_address(const std::string& host) {
    std::array<unsigned char, 16> address{};
    return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

void add_extensions(X509* certificate, X509* issuer, const CertificateWish& wish) {
    add_extension(certificate, issuer, NID_basic_constraints,
                  wish.is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    add_extension(certificate, issuer, NID_subject_key_identifier, "hash");
    if (wish.is_ca) {
        add_extension(certificate, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
    }
    std::string hosts;
    for (const std::string& host : wish.hosts) {
        hosts.append(hosts.empty() ? "" : ",").append(is_address(host) ? "IP:" : "DNS:");
        hosts.append(host);
    }
    if (!hosts.empty()) {
        add_extension(certificate, issuer, NID_subject_alt_name, hosts);
    }
}

void set_name(X509_NAME* name, const std::string& common_name) {
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                               0);
}

TestCertificate make(const CertificateWish& wish, const TestCertificate* issuer) {
    static std::atomic<long> serial = 1000;
    TestCertificate made;
    made.key.reset(wish.rsa_bits == 0 ? EVP_EC_gen("P-256") : EVP_RSA_gen(wish.rsa_bits));
    made.certificate.reset(X509_new());
    X509* certificate = made.certificate.get();
    require(made.key != nullptr && certificate != nullptr, "a key");
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), wish.valid_from_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate), wish.valid_until_s);
    X509_set_pubkey(certificate, made.key.get());
    set_name(X509_get_subject_name(certificate), wish.common_name);
    X509* signer = issuer != nullptr ? issuer->certificate.get() : certificate;
    X509_set_issuer_name(certificate, X509_get_subject_name(signer));
    add_extensions(certificate, signer, wish);
    EVP_PKEY* key = issuer != nullptr ? issuer->key.get() : made.key.get();
    require(X509_sign(certificate, key, EVP_sha256()) > 0, "a signature");
    made.chain_pem = made.certificate_pem();
    // A root is not sent.
    if (issuer != nullptr &&
        X509_NAME_cmp(X509_get_subject_name(signer), X509_get_issuer_name(signer)) != 0) {
        made.chain_pem += issuer->chain_pem;
    }
    return made;
}

}  // namespace

std::string TestCertificate::certificate_pem() const {
    const BioHandle bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate.get());
    return text_in(bio);
}

std::string TestCertificate::key_pem() const {
    const BioHandle bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return text_in(bio);
}

std::string TestCertificate::encrypted_key_pem(const std::string& password) const {
    const BioHandle bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), key.get(), EVP_aes_128_cbc(),
                             reinterpret_cast<const unsigned char*>(password.data()),
                             static_cast<int>(password.size()), nullptr, nullptr);
    return text_in(bio);
}

TlsIdentity TestCertificate::identity() const {
    return {.certificate_text = chain_pem, .key_text = key_pem()};
}

TestCertificate self_signed(const CertificateWish& wish) { return make(wish, nullptr); }

TestCertificate issued_by(const TestCertificate& issuer, const CertificateWish& wish) {
    return make(wish, &issuer);
}

const TestCertificate& test_ca() {
    static const TestCertificate ca = self_signed({.common_name = "Test CA", .is_ca = true});
    return ca;
}

TestCertificate certificate_for(const std::string& host) {
    return issued_by(test_ca(), {.common_name = host, .hosts = {host}});
}

TemporaryDirectory::TemporaryDirectory() : path_(testing::TempDir() + "berth-tls-XXXXXX") {
    require(::mkdtemp(path_.data()) != nullptr, "a temporary directory");
}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryDirectory::write(const std::string& name, std::string_view text) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

}  // namespace berth::tls_test
