// SPDX-License-Identifier: Apache-2.0
// Which servers a client accepts, and what it says about the others.
#include "tests/tls/machine_pair.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace berth::internal {
namespace {

using tls_test::CertificateWish;
using tls_test::client_context;
using tls_test::client_context_of;
using tls_test::issued_by;
using tls_test::kHour_s;
using tls_test::Pair;
using tls_test::says;
using tls_test::self_signed;
using tls_test::server_context;
using tls_test::test_ca;
using tls_test::TestCertificate;

TlsContext server_with(const TestCertificate& certificate) {
    return server_context({.identity = certificate.identity()});
}

class TlsVerificationOf : public testing::TestWithParam<TlsVersion> {
protected:
    // A client meets a server with this certificate; its error in both forms.
    void meet(const TestCertificate& certificate, std::string host = "host.example",
              TlsClientOptions options = {}) {
        Pair pair(client_context_of(GetParam(), std::move(options)), server_with(certificate),
                  {.host = host});
        pair.run();
        EXPECT_EQ(pair.client->is_handshake_done(), !pair.client.error);
        // Nobody takes the other's alert for success.
        EXPECT_EQ(pair.server.error.has_value(), pair.client.error.has_value());
        error = pair.client.error;
        explanation = pair.client->explain_failure();
    }

    std::optional<Error> error;
    std::string explanation;
};

INSTANTIATE_TEST_SUITE_P(Versions, TlsVerificationOf,
                         testing::Values(TlsVersion::tls_1_2, TlsVersion::tls_1_3),
                         [](const testing::TestParamInfo<TlsVersion>& version) {
                             return version.param == TlsVersion::tls_1_2 ? "Tls12" : "Tls13";
                         });

TEST_P(TlsVerificationOf, ExpiredCertificate) {
    meet(issued_by(
        test_ca(),
        {.hosts = {"host.example"}, .valid_from_s = -2 * kHour_s, .valid_until_s = -kHour_s}));
    EXPECT_TRUE(says(error, "tls handshake host.example: "));
    EXPECT_TRUE(says(error, ": certificate has expired; the peer must renew it"));
    EXPECT_EQ(error->code(), Errc::certificate_rejected);
    EXPECT_EQ(explanation,
              "certificate verify failed: certificate has expired (host host.example); the peer "
              "must renew it; or check this host's clock");
}

TEST_P(TlsVerificationOf, CertificateOfTheFuture) {
    meet(issued_by(test_ca(), {.hosts = {"host.example"}, .valid_from_s = kHour_s}));
    EXPECT_TRUE(says(error, "certificate is not yet valid; check this host's clock"));
}

TEST_P(TlsVerificationOf, CertificateOfAnotherHost) {
    meet(issued_by(test_ca(), {.hosts = {"a.example"}}), "b.example");
    EXPECT_TRUE(says(error, "tls handshake b.example (certificate is for a.example): "));
    EXPECT_EQ(explanation,
              "certificate verify failed: certificate is for a.example, not for b.example; connect "
              "by a name that it is for");
}

TEST_P(TlsVerificationOf, CertificateOfManyOtherHosts) {
    meet(issued_by(test_ca(), {.hosts = {"*.a.example", "192.0.2.1", "2001:db8::1", "c.example",
                                         "d.example"}}),
         "b.example");
    EXPECT_NE(explanation.find("certificate is for *.a.example, 192.0.2.1, 2001:db8::1 and 2 more, "
                               "not for b.example"),
              std::string::npos)
        << explanation;
}

TEST_P(TlsVerificationOf, CertificateOfAnotherAddress) {
    const auto certificate = issued_by(test_ca(), {.hosts = {"192.0.2.1", "2001:db8::1"}});
    meet(certificate, "192.0.2.2");
    EXPECT_TRUE(says(error, "certificate is for another address"));
    meet(certificate, "192.0.2.1");
    EXPECT_FALSE(error);
    meet(certificate, "2001:db8:0::1");
    EXPECT_FALSE(error);
}

TEST_P(TlsVerificationOf, CommonNameCountsForNothing) {
    meet(issued_by(test_ca(), {.common_name = "host.example"}));
    EXPECT_NE(explanation.find("certificate is for no host, not for host.example"),
              std::string::npos)
        << explanation;
}

TEST_P(TlsVerificationOf, WildcardStandsForOneLabel) {
    const auto certificate = issued_by(test_ca(), {.hosts = {"*.a.example"}});
    meet(certificate, "x.a.example");
    EXPECT_FALSE(error);
    meet(certificate, "X.A.EXAMPLE");
    EXPECT_FALSE(error);
    for (const char* host : {"a.example", "x.y.a.example", "xa.example"}) {
        meet(certificate, host);
        EXPECT_TRUE(says(error, "certificate is for another host")) << host;
    }
    // Only whole labels: a part of one is not matched.
    meet(issued_by(test_ca(), {.hosts = {"x*.a.example"}}), "xy.a.example");
    EXPECT_TRUE(error);
}

TEST_P(TlsVerificationOf, SelfSignedCertificate) {
    const auto certificate = self_signed({.hosts = {"host.example"}});
    meet(certificate);
    EXPECT_TRUE(says(error, "self-signed certificate; if it is the right one, add it by ca_file"));
    meet(certificate, "host.example", {.ca_text = certificate.certificate_pem()});
    EXPECT_FALSE(error);
}

TEST_P(TlsVerificationOf, UnknownCa) {
    const auto other_ca = self_signed({.common_name = "Other CA", .is_ca = true});
    meet(issued_by(other_ca, {.hosts = {"host.example"}}));
    EXPECT_TRUE(says(error, "unknown issuer; add its CA by ca_file"));
}

TEST_P(TlsVerificationOf, CaOfTheSameNameWithAnotherKey) {
    const auto impostor = self_signed({.common_name = "Test CA", .is_ca = true});
    meet(issued_by(impostor, {.hosts = {"host.example"}}));
    EXPECT_TRUE(error);
}

TEST_P(TlsVerificationOf, ChainWithAnIntermediate) {
    const auto intermediate = issued_by(test_ca(), {.common_name = "Intermediate", .is_ca = true});
    auto certificate = issued_by(intermediate, {.hosts = {"host.example"}});
    meet(certificate);
    EXPECT_FALSE(error);
    certificate.chain_pem = certificate.certificate_pem();
    meet(certificate);
    EXPECT_TRUE(says(error, "have the peer send its whole chain"));
    // An intermediate that is trusted by name needs nobody above it.
    meet(certificate, "host.example", {.ca_text = intermediate.certificate_pem()});
    EXPECT_FALSE(error);
}

TEST_P(TlsVerificationOf, ExpiredIntermediateIsNamed) {
    const auto intermediate = issued_by(test_ca(), {.common_name = "Intermediate",
                                                    .valid_from_s = -2 * kHour_s,
                                                    .valid_until_s = -kHour_s,
                                                    .is_ca = true});
    meet(issued_by(intermediate, {.hosts = {"host.example"}}));
    EXPECT_TRUE(says(error, "host.example (of /CN=Intermediate): "));
    EXPECT_TRUE(says(error, "certificate has expired"));
    EXPECT_NE(explanation.find("certificate has expired (/CN=Intermediate, of the peer's chain)"),
              std::string::npos);
}

TEST_P(TlsVerificationOf, CertificateThatIsNoCaIssuesNothing) {
    const auto no_ca = issued_by(test_ca(), {.common_name = "no CA", .hosts = {"x.example"}});
    meet(issued_by(no_ca, {.hosts = {"host.example"}}));
    EXPECT_TRUE(error);
}

TEST_P(TlsVerificationOf, HostIsNotComparedByChainOnly) {
    const auto certificate = issued_by(test_ca(), {.hosts = {"a.example"}});
    meet(certificate, "b.example", {.verification = TlsVerification::chain_only});
    EXPECT_FALSE(error);
    meet(self_signed({.hosts = {"b.example"}}), "b.example",
         {.verification = TlsVerification::chain_only});
    EXPECT_TRUE(says(error, "self-signed"));
}

TEST_P(TlsVerificationOf, NothingIsComparedByNone) {
    meet(self_signed({.hosts = {"a.example"}, .valid_until_s = -1}), "b.example",
         {.verification = TlsVerification::none});
    EXPECT_FALSE(error);
}

TEST_P(TlsVerificationOf, NamesInACertificateDoNotReachTheTerminalAsTheyAre) {
    meet(issued_by(test_ca(), {.hosts = {"evil\x1b[31m.example"}}), "b.example");
    EXPECT_NE(explanation.find("evil?[31m.example"), std::string::npos) << explanation;
}

TEST(TlsVerification, LongNamesAreCutInTheErrorAndWholeInTheExplanation) {
    const std::string host = std::string(60, 'h') + ".example";
    const std::string other = std::string(60, 'o') + ".example";
    Pair pair(client_context(), server_with(issued_by(test_ca(), {.hosts = {other}})),
              {.host = host});
    pair.run();
    ASSERT_TRUE(pair.client.error);
    EXPECT_EQ(pair.client.error->subject(), host.substr(0, 63));
    EXPECT_NE(pair.client->explain_failure().find("is for " + other + ", not for " + host),
              std::string::npos);
}

TEST(TlsVerification, ClientWithoutATrustOptionUsesTheSystemsStore) {
    const tls_test::TemporaryDirectory directory;
    const std::string file = directory.write("store.pem", test_ca().certificate_pem());
    ::setenv("SSL_CERT_FILE", file.c_str(), 1);
    Pair pair(tls_test::value_of(TlsContext::client()), server_context());
    ::unsetenv("SSL_CERT_FILE");
    pair.run();
    EXPECT_TRUE(pair.are_connected());
}

TEST(TlsVerification, TrustFromSeveralPlacesAddsUp) {
    const tls_test::TemporaryDirectory directory;
    const auto second_ca = self_signed({.common_name = "Second CA", .is_ca = true});
    const TlsContext client =
        client_context({.ca_file = directory.write("ca", test_ca().certificate_pem()),
                        .ca_text = second_ca.certificate_pem()});
    for (const TestCertificate* ca : {&test_ca(), &second_ca}) {
        Pair pair(client, server_with(issued_by(*ca, {.hosts = {"host.example"}})));
        pair.run();
        EXPECT_TRUE(pair.are_connected());
    }
}

}  // namespace
}  // namespace berth::internal
