// SPDX-License-Identifier: Apache-2.0
// What can be wrong with certificates, keys, stores and options, and how it is told.
#include <berth/tls.h>

#include "tests/tls/machine_pair.h"
#include "tests/tls/test_certificates.h"

#include <gtest/gtest.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace berth {
namespace {

using tls_test::certificate_for;
using tls_test::fails_with;
using tls_test::says;
using tls_test::succeeded;
using tls_test::TemporaryDirectory;
using tls_test::TestCertificate;

class TlsContextOf : public testing::Test {
protected:
    static Result<TlsContext> server_of(TlsIdentity identity) {
        TlsServerOptions options;
        options.identity = std::move(identity);
        return TlsContext::server(options);
    }

    TemporaryDirectory directory;
    TestCertificate own = certificate_for("host.example");
    std::string certificate_file = directory.write("host.pem", own.certificate_pem());
    std::string key_file = directory.write("host.key", own.key_pem());
};

TEST_F(TlsContextOf, FilesAndTextsDoTheSame) {
    EXPECT_TRUE(succeeded(server_of({.certificate_file = certificate_file, .key_file = key_file})));
    EXPECT_TRUE(succeeded(
        server_of({.certificate_text = own.certificate_pem(), .key_text = own.key_pem()})));
    EXPECT_TRUE(
        succeeded(server_of({.certificate_file = certificate_file, .key_text = own.key_pem()})));
}

TEST_F(TlsContextOf, KeyMayStandBehindTheCertificate) {
    const std::string both = own.certificate_pem() + own.key_pem();
    EXPECT_TRUE(succeeded(server_of({.certificate_text = both})));
    EXPECT_TRUE(succeeded(server_of({.certificate_file = directory.write("both.pem", both)})));
    EXPECT_TRUE(succeeded(server_of({.certificate_text = own.key_pem() + own.certificate_pem()})));
}

TEST_F(TlsContextOf, MissingFilesAreNamedWithTheOption) {
    const std::string missing = directory.path() + "/missing.pem";
    const auto no_certificate = server_of({.certificate_file = missing, .key_file = key_file});
    EXPECT_TRUE(fails_with(no_certificate, "read tls certificate "));
    EXPECT_TRUE(fails_with(no_certificate,
                           "missing.pem: No such file or directory (errno 2); "
                           "check certificate_file"));
    EXPECT_EQ(no_certificate.error().system_errno(), ENOENT);
    const auto no_key = server_of({.certificate_file = certificate_file, .key_file = missing});
    EXPECT_TRUE(fails_with(no_key, "read tls key "));
    EXPECT_TRUE(fails_with(no_key, "check key_file"));
    EXPECT_TRUE(fails_with(TlsContext::client({.ca_file = missing}), "check ca_file"));
}

TEST_F(TlsContextOf, EndOfALongPathIsKeptInTheMessage) {
    const std::string path = "/nowhere/" + std::string(80, 'd') + "/fullchain.pem";
    EXPECT_TRUE(fails_with(server_of({.certificate_file = path}), "read tls certificate ...ddd"));
    EXPECT_TRUE(fails_with(server_of({.certificate_file = path}), "ddd/fullchain.pem: No such"));
}

TEST_F(TlsContextOf, DirectoryInsteadOfAFileIsAnError) {
    EXPECT_TRUE(fails_with(server_of({.certificate_file = directory.path()}), "Is a directory"));
}

TEST_F(TlsContextOf, EndlessFileIsAnError) {
    EXPECT_TRUE(fails_with(server_of({.certificate_file = "/dev/zero"}), "File too large"));
}

TEST_F(TlsContextOf, KeyOfAnotherCertificateIsToldWithItsFile) {
    const std::string other = directory.write("other.key", certificate_for("b.example").key_pem());
    const auto result = server_of({.certificate_file = certificate_file, .key_file = other});
    EXPECT_TRUE(fails_with(result,
                           "other.key: invalid argument: the key does not belong to the "
                           "certificate; "));
    EXPECT_EQ(result.error().code(), Errc::invalid_argument);
}

TEST_F(TlsContextOf, ChainInTheWrongOrderIsToldAsAKeyMismatch) {
    const std::string chain = tls_test::test_ca().certificate_pem() + own.certificate_pem();
    EXPECT_TRUE(fails_with(server_of({.certificate_text = chain, .key_text = own.key_pem()}),
                           "the certificate must come first"));
}

TEST_F(TlsContextOf, WhatIsNoPemIsTold) {
    EXPECT_TRUE(fails_with(
        server_of({.certificate_file = directory.write("a.der", "\x30\x82"), .key_file = key_file}),
        "a.der: invalid argument: it holds no certificate in PEM form; from DER"));
    EXPECT_TRUE(fails_with(server_of({.certificate_text = "hello", .key_text = own.key_pem()}),
                           "read tls certificate certificate_text: "));
    EXPECT_TRUE(fails_with(server_of({.certificate_file = certificate_file}),
                           "it holds no private key in PEM form; name the key by key_file"));
    EXPECT_TRUE(fails_with(TlsContext::client({.ca_text = own.key_pem()}),
                           "read tls ca ca_text: invalid argument: it holds no certificate"));
}

TEST_F(TlsContextOf, DamagedPemIsTold) {
    std::string certificate = own.certificate_pem();
    certificate.replace(certificate.size() / 2, 8, "AAAAAAAA");
    std::string key = own.key_pem();
    key.replace(key.size() / 2, 8, "????????");
    EXPECT_TRUE(fails_with(
        server_of({.certificate_text = certificate.substr(0, 200), .key_text = own.key_pem()}),
        "a certificate in it is damaged"));
    EXPECT_TRUE(fails_with(server_of({.certificate_file = certificate_file, .key_text = key}),
                           "the key in it is damaged"));
    // One bit in the middle parses, and then does not fit the key or the CA.
    EXPECT_FALSE(server_of({.certificate_text = own.certificate_pem() + certificate.substr(0, 300),
                            .key_text = own.key_pem()}));
}

TEST_F(TlsContextOf, EncryptedKeyNeedsItsPassword) {
    const std::string key = own.encrypted_key_pem("secret");
    const auto with_password = [&](std::string password) {
        return server_of({.certificate_file = certificate_file,
                          .key_text = key,
                          .key_password = std::move(password)});
    };
    EXPECT_TRUE(succeeded(with_password("secret")));
    EXPECT_TRUE(fails_with(with_password(""), "the key is encrypted; set key_password"));
    EXPECT_TRUE(fails_with(with_password("guess"),
                           "the key cannot be decrypted; check "
                           "key_password"));
}

TEST_F(TlsContextOf, TwoPlacesForOneThingAreRefused) {
    EXPECT_TRUE(fails_with(server_of({.certificate_file = certificate_file,
                                      .certificate_text = own.certificate_pem(),
                                      .key_file = key_file}),
                           "a file and a text are given; leave out certificate_file or"));
    EXPECT_TRUE(fails_with(server_of({.certificate_file = certificate_file,
                                      .key_file = key_file,
                                      .key_text = own.key_pem()}),
                           "leave out key_file or key_text"));
    EXPECT_TRUE(fails_with(server_of({.key_file = key_file}), "an identity without a certificate"));
}

TEST_F(TlsContextOf, WeakKeyIsRefusedInOpenSslsWords) {
    const TestCertificate weak =
        tls_test::self_signed({.hosts = {"host.example"}, .rsa_bits = 512});
    EXPECT_TRUE(fails_with(server_of(weak.identity()),
                           "use tls certificate certificate_text: invalid argument: ee key too "
                           "small"));
}

TEST_F(TlsContextOf, RsaKeyWorksToo) {
    const TestCertificate rsa =
        tls_test::issued_by(tls_test::test_ca(), {.hosts = {"host.example"}, .rsa_bits = 2048});
    tls_test::Pair pair(tls_test::client_context(), tls_test::value_of(server_of(rsa.identity())));
    pair.run();
    EXPECT_TRUE(pair.are_connected());
}

TEST_F(TlsContextOf, EmptyOrUnhashedDirectoryOfCasIsTold) {
    EXPECT_TRUE(fails_with(TlsContext::client({.ca_directory = directory.path() + "/none"}),
                           "No such file or directory (errno 2); check ca_directory"));
    EXPECT_TRUE(fails_with(TlsContext::client({.ca_directory = directory.path()}),
                           "no certificate in it is named by its hash; run 'openssl rehash'"));
}

TEST_F(TlsContextOf, HashedDirectoryOfCasIsUsed) {
    char name[16];
    std::snprintf(name, sizeof name, "%08lx.0",
                  X509_NAME_hash_ex(X509_get_subject_name(tls_test::test_ca().certificate.get()),
                                    nullptr, nullptr, nullptr));
    directory.write(name, tls_test::test_ca().certificate_pem());
    tls_test::Pair pair(tls_test::value_of(TlsContext::client({.ca_directory = directory.path()})),
                        tls_test::server_context());
    pair.run();
    EXPECT_TRUE(pair.are_connected());
}

TEST_F(TlsContextOf, HostWithoutACaStoreIsTold) {
    ::setenv("SSL_CERT_FILE", "/nowhere/cert.pem", 1);
    ::setenv("SSL_CERT_DIR", "/nowhere:/neither", 1);
    const auto by_default = TlsContext::client();
    const auto by_name =
        TlsContext::client({.ca_file = certificate_file, .use_system_store = true});
    const auto not_needed = TlsContext::client({.ca_file = certificate_file});
    const auto not_wanted = TlsContext::client({.verification = TlsVerification::none});
    ::unsetenv("SSL_CERT_FILE");
    ::unsetenv("SSL_CERT_DIR");
    for (const auto* result : {&by_default, &by_name}) {
        EXPECT_TRUE(fails_with(*result, "make tls client context: "));
        EXPECT_TRUE(fails_with(*result,
                               "this host has no store of CA certificates; install "
                               "ca-certificates, or name a ca_file"));
    }
    EXPECT_TRUE(succeeded(not_needed));
    EXPECT_TRUE(succeeded(not_wanted));
}

TEST_F(TlsContextOf, UnknownCiphersAreTold) {
    EXPECT_TRUE(fails_with(TlsContext::client({.ca_file = certificate_file, .ciphers_1_2 = "XYZ"}),
                           "make tls client context XYZ: invalid argument: ciphers_1_2 names no "
                           "cipher that OpenSSL has; see 'openssl ciphers"));
    EXPECT_TRUE(fails_with(TlsContext::client({.ca_file = certificate_file, .ciphers_1_3 = "XYZ"}),
                           "ciphers_1_3 names a cipher that OpenSSL has not"));
}

TEST_F(TlsContextOf, VersionsInTheWrongOrderAreTold) {
    EXPECT_TRUE(fails_with(TlsContext::client({.minimum_version = TlsVersion::tls_1_3,
                                               .maximum_version = TlsVersion::tls_1_2}),
                           "minimum_version is above maximum_version"));
}

TEST_F(TlsContextOf, AlpnNamesHave1To255Bytes) {
    for (const std::string& name : {std::string(), std::string(256, 'x')}) {
        EXPECT_TRUE(fails_with(TlsContext::client({.alpn = {"h2", name}}),
                               "a protocol's name has 1 to 255 bytes"));
    }
    EXPECT_TRUE(fails_with(
        TlsContext::client({.alpn = std::vector<std::string>(300, std::string(255, 'x'))}),
        "more than 65535 bytes"));
}

TEST_F(TlsContextOf, ServerNeedsAnIdentity) {
    EXPECT_TRUE(fails_with(TlsContext::server({}), "a server without a certificate; set identity"));
}

TEST_F(TlsContextOf, ClientCertificatesNeedSomebodyToTrust) {
    TlsServerOptions options;
    options.identity = own.identity();
    options.client_certificate = TlsClientCertificate::optional;
    EXPECT_TRUE(fails_with(TlsContext::server(options), "no CA is trusted; set client_ca_file"));
}

TEST_F(TlsContextOf, ServersNamesMustBeNamesAndDiffer) {
    const auto with_names = [&](std::vector<std::string> names) {
        TlsServerOptions options;
        options.named_identities = {own.identity()};
        options.named_identities[0].names = std::move(names);
        return TlsContext::server(options);
    };
    EXPECT_TRUE(succeeded(with_names({"a.example", "*.a.example"})));
    EXPECT_TRUE(fails_with(with_names({"a.*.example"}),
                           "make tls server context a.*.example: "
                           "invalid argument: this is no host name"));
    EXPECT_TRUE(fails_with(with_names({"*"}), "this is no host name"));
    EXPECT_TRUE(fails_with(with_names({"a.example", "A.EXAMPLE"}), "two identities for one name"));
}

TEST_F(TlsContextOf, NamedIdentityWithoutNamesIsTold) {
    TlsServerOptions options;
    options.named_identities = {tls_test::self_signed({.common_name = "a.example"}).identity()};
    EXPECT_TRUE(fails_with(TlsContext::server(options),
                           "the certificate is for no host name; list "
                           "its names"));
    options.named_identities.clear();
    options.identity = own.identity();
    options.identity->names = {"a.example"};
    EXPECT_TRUE(fails_with(TlsContext::server(options), "move it to named_identities"));
}

TEST_F(TlsContextOf, CopiesShareAndOutliveEachOther) {
    auto original = server_of(own.identity());
    ASSERT_TRUE(succeeded(original));
    TlsContext copy = *original;
    TlsContext moved = std::move(*original);
    EXPECT_TRUE(moved.is_server());
    {
        const TlsContext gone = std::move(moved);
    }
    EXPECT_TRUE(copy.is_server());
    tls_test::Pair pair(tls_test::client_context(), copy);
    copy = tls_test::server_context();
    pair.run();
    EXPECT_TRUE(pair.are_connected());
    EXPECT_FALSE(tls_test::client_context().is_server());
}

TEST(TlsVersionText, IsWhatPeopleWrite) {
    EXPECT_EQ(to_string(TlsVersion::tls_1_2), "TLS 1.2");
    EXPECT_EQ(to_string(TlsVersion::tls_1_3), "TLS 1.3");
}

}  // namespace
}  // namespace berth
