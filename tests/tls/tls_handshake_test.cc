// SPDX-License-Identifier: Apache-2.0
// What two sides agree on: versions, ciphers, protocols, names, certificates of clients.
#include "tests/tls/machine_pair.h"

#include <gtest/gtest.h>

#include <string>

namespace berth::internal {
namespace {

using tls_test::certificate_for;
using tls_test::client_context;
using tls_test::client_context_of;
using tls_test::Pair;
using tls_test::says;
using tls_test::server_context;
using tls_test::server_context_of;

class TlsHandshake : public testing::TestWithParam<TlsVersion> {};

std::string name_of(const testing::TestParamInfo<TlsVersion>& version) {
    return version.param == TlsVersion::tls_1_2 ? "Tls12" : "Tls13";
}

INSTANTIATE_TEST_SUITE_P(Versions, TlsHandshake,
                         testing::Values(TlsVersion::tls_1_2, TlsVersion::tls_1_3), name_of);

TEST_P(TlsHandshake, SucceedsAndTellsWhatWasAgreed) {
    Pair pair(client_context(), server_context_of(GetParam()));
    pair.run();
    ASSERT_TRUE(pair.are_connected());
    for (tls_test::Side* side : {&pair.client, &pair.server}) {
        EXPECT_EQ((*side)->version(), GetParam());
        EXPECT_EQ((*side)->server_name(), "host.example");
        EXPECT_FALSE((*side)->was_resumed());
        EXPECT_FALSE((*side)->failure());
        EXPECT_EQ((*side)->alpn(), "");
    }
    EXPECT_EQ(pair.client->cipher(), pair.server->cipher());
    EXPECT_NE(pair.client->cipher(), "");
    EXPECT_EQ(pair.client->peer_certificate_subject(), "CN=host.example");
    EXPECT_EQ(pair.server->peer_certificate_subject(), "");
}

TEST_P(TlsHandshake, WorksOneByteAtATime) {
    Pair pair(client_context_of(GetParam()), server_context());
    pair.run([] { return 1; });
    EXPECT_TRUE(pair.are_connected());
}

TEST_P(TlsHandshake, CarriesDataBothWays) {
    Pair pair(client_context(), server_context_of(GetParam()));
    pair.client.unwritten = "question";
    pair.server.unwritten = "answer";
    pair.run();
    EXPECT_EQ(pair.server.plaintext, "question");
    EXPECT_EQ(pair.client.plaintext, "answer");
}

TEST_P(TlsHandshake, UsesTheCiphersThatAreGiven) {
    Pair pair(client_context(),
              server_context_of(GetParam(), {.ciphers_1_2 = "ECDHE-ECDSA-CHACHA20-POLY1305",
                                             .ciphers_1_3 = "TLS_CHACHA20_POLY1305_SHA256"}));
    pair.run();
    ASSERT_TRUE(pair.are_connected());
    EXPECT_NE(pair.client->cipher().find("CHACHA20"), std::string_view::npos);
}

TEST_P(TlsHandshake, ServersPreferenceDecidesOnTheProtocol) {
    Pair pair(client_context_of(GetParam(), {.alpn = {"http/1.1", "h2"}}),
              server_context({.alpn = {"h2", "http/1.1"}}));
    pair.run();
    ASSERT_TRUE(pair.are_connected());
    EXPECT_EQ(pair.client->alpn(), "h2");
    EXPECT_EQ(pair.server->alpn(), "h2");
}

TEST_P(TlsHandshake, WithoutAlpnOnOneSideNoneIsAgreed) {
    Pair only_client(client_context_of(GetParam(), {.alpn = {"h2"}}), server_context());
    only_client.run();
    EXPECT_TRUE(only_client.are_connected());
    EXPECT_EQ(only_client.client->alpn(), "");
    Pair only_server(client_context_of(GetParam()), server_context({.alpn = {"h2"}}));
    only_server.run();
    EXPECT_TRUE(only_server.are_connected());
    EXPECT_EQ(only_server.server->alpn(), "");
}

TEST_P(TlsHandshake, FailsOnBothSidesWhenNoProtocolIsInCommon) {
    Pair pair(client_context_of(GetParam(), {.alpn = {"spdy/1"}}),
              server_context({.alpn = {"h2", "http/1.1"}}));
    pair.run();
    EXPECT_FALSE(pair.client->is_handshake_done());
    EXPECT_TRUE(says(pair.server.error, "no ALPN protocol in common; compare alpn of both sides"));
    EXPECT_TRUE(says(pair.client.error,
                     "tls handshake host.example: TLS failed: no ALPN protocol in common, the "
                     "peer says"));
}

TEST_P(TlsHandshake, ServerTakesTheIdentityOfTheNameThatIsAskedFor) {
    TlsIdentity several =
        tls_test::issued_by(tls_test::test_ca(),
                            {.common_name = "several", .hosts = {"*.wild.example", "b.example"}})
            .identity();
    several.names = {"*.wild.example", "b.example"};
    const TlsContext server =
        server_context({.identity = certificate_for("host.example").identity(),
                        .named_identities = {certificate_for("a.example").identity(), several,
                                             certificate_for("exact.wild.example").identity()}});
    const TlsContext client = client_context_of(GetParam());
    const std::pair<const char*, const char*> expected[] = {
        {"host.example", "CN=host.example"},
        {"a.example", "CN=a.example"},
        {"A.Example", "CN=a.example"},
        {"b.example", "CN=several"},
        {"x.wild.example", "CN=several"},
        {"a.example.", "CN=a.example"},
        {"exact.wild.example", "CN=exact.wild.example"},
    };
    for (const auto& [host, subject] : expected) {
        Pair pair(client, server, {.host = host});
        pair.run();
        EXPECT_TRUE(pair.are_connected()) << host;
        EXPECT_EQ(pair.client->peer_certificate_subject(), subject) << host;
    }
}

TEST_P(TlsHandshake, NameNobodyServesGetsTheDefaultIdentity) {
    Pair pair(client_context_of(GetParam(), {.verification = TlsVerification::chain_only}),
              server_context({.identity = certificate_for("host.example").identity(),
                              .named_identities = {certificate_for("a.example").identity()}}),
              {.host = "x.a.example"});
    pair.run();
    EXPECT_TRUE(pair.are_connected());
    EXPECT_EQ(pair.client->peer_certificate_subject(), "CN=host.example");
    EXPECT_EQ(pair.server->server_name(), "x.a.example");
}

TEST_P(TlsHandshake, WithoutADefaultIdentityUnknownNamesAreRefused) {
    const TlsContext server =
        server_context({.named_identities = {certificate_for("a.example").identity()}});
    const TlsContext client =
        client_context_of(GetParam(), {.verification = TlsVerification::none});
    Pair other_name(client, server, {.host = "b.example"});
    other_name.run();
    EXPECT_TRUE(says(other_name.client.error, "the peer serves no host of this name"));
    EXPECT_TRUE(says(other_name.server.error, "tls accept b.example: "));
    Pair no_name(client, server, {.host = "192.0.2.1"});
    no_name.run();
    EXPECT_TRUE(says(no_name.client.error, "the peer serves no host of this name"));
    EXPECT_TRUE(says(no_name.server.error, "no identity for the host that the client asks for"));
}

TEST_P(TlsHandshake, AddressIsNotSentAsAName) {
    Pair pair(client_context_of(GetParam()),
              server_context({.identity = certificate_for("192.0.2.1").identity()}),
              {.host = "192.0.2.1"});
    pair.run();
    EXPECT_TRUE(pair.are_connected());
    EXPECT_EQ(pair.server->server_name(), "");
    EXPECT_EQ(pair.client->server_name(), "192.0.2.1");
}

TEST_P(TlsHandshake, RequiredClientCertificateIsShownToTheServer) {
    Pair pair(client_context_of(GetParam(), {.identity = certificate_for("user").identity()}),
              server_context({.client_certificate = TlsClientCertificate::required,
                              .client_ca_text = tls_test::test_ca().certificate_pem()}));
    pair.run();
    ASSERT_TRUE(pair.are_connected());
    EXPECT_EQ(pair.server->peer_certificate_subject(), "CN=user");
}

TEST_P(TlsHandshake, MissingClientCertificateIsRefusedOnlyWhenRequired) {
    const TlsContext client = client_context_of(GetParam());
    Pair required(client,
                  server_context({.client_certificate = TlsClientCertificate::required,
                                  .client_ca_text = tls_test::test_ca().certificate_pem()}));
    required.run();
    EXPECT_TRUE(says(required.server.error,
                     "the client sent no certificate; give the client an "
                     "identity"));
    EXPECT_FALSE(required.server->is_handshake_done());
    // TLS 1.3 has a word of its own for it.
    EXPECT_TRUE(says(required.client.error, GetParam() == TlsVersion::tls_1_3
                                                ? "the peer demands a client certificate"
                                                : "handshake_failure"));
    Pair optional(client,
                  server_context({.client_certificate = TlsClientCertificate::optional,
                                  .client_ca_text = tls_test::test_ca().certificate_pem()}));
    optional.run();
    EXPECT_TRUE(optional.are_connected());
}

TEST_P(TlsHandshake, ClientCertificateOfAStrangerIsRefusedEvenWhenOptional) {
    const auto stranger = tls_test::self_signed({.common_name = "stranger"});
    Pair pair(client_context_of(GetParam(), {.identity = stranger.identity()}),
              server_context({.client_certificate = TlsClientCertificate::optional,
                              .client_ca_text = tls_test::test_ca().certificate_pem()}));
    pair.run();
    EXPECT_TRUE(
        says(pair.server.error,
             "tls accept host.example: the certificate is not accepted: self-signed certificate"));
    EXPECT_TRUE(says(pair.client.error, "the peer does not trust this side's certificate"));
}

TEST(TlsHandshakeVersions, WithoutAVersionInCommonBothSidesSaySo) {
    Pair old_client(client_context_of(TlsVersion::tls_1_2), server_context_of(TlsVersion::tls_1_3));
    old_client.run();
    EXPECT_TRUE(says(old_client.server.error, "no TLS version in common"));
    EXPECT_TRUE(says(old_client.client.error,
                     "the peer accepts no TLS version of this side; "
                     "compare minimum_version"));
    Pair old_server(client_context_of(TlsVersion::tls_1_3), server_context_of(TlsVersion::tls_1_2));
    old_server.run();
    EXPECT_TRUE(says(old_server.server.error, "no TLS version in common"));
}

TEST(TlsHandshakeVersions, WithoutACipherInCommonBothSidesSaySo) {
    Pair pair(client_context({.ciphers_1_3 = "TLS_AES_128_GCM_SHA256"}),
              server_context_of(TlsVersion::tls_1_3, {.ciphers_1_3 = "TLS_AES_256_GCM_SHA384"}));
    pair.run();
    EXPECT_TRUE(says(pair.server.error, "no cipher in common"));
    EXPECT_TRUE(says(pair.client.error, "the peer found no parameters in common"));
}

TEST(TlsMachineCreation, RefusesTheContextOfTheOtherSide) {
    CipherChunkPool pool;
    EXPECT_TRUE(tls_test::fails_with(TlsMachine::server(client_context(), pool),
                                     "the context is a client's"));
    EXPECT_TRUE(
        tls_test::fails_with(TlsMachine::client(server_context(), pool, {.host = "a.example"}),
                             "the context is a server's"));
}

TEST(TlsMachineCreation, RefusesAHostThatCannotBeVerified) {
    CipherChunkPool pool;
    const TlsContext context = client_context();
    EXPECT_TRUE(
        tls_test::fails_with(TlsMachine::client(context, pool, {.host = ""}), "no host to verify"));
    for (const char* host : {"a b.example", "*.example",
                             "b\xc3\xbc"
                             "cher.example",
                             "a..example", ".example", "fe80::1%lo", "a.example/path"}) {
        EXPECT_TRUE(tls_test::fails_with(TlsMachine::client(context, pool, {.host = host}),
                                         "neither a host name nor an address"))
            << host;
    }
}

TEST(TlsMachineCreation, WithoutVerificationNoHostIsNeeded) {
    for (const auto verification : {TlsVerification::none, TlsVerification::chain_only}) {
        Pair pair(client_context({.verification = verification}), server_context(), {.host = ""});
        pair.run();
        EXPECT_TRUE(pair.are_connected());
        EXPECT_EQ(pair.server->server_name(), "");
    }
}

}  // namespace
}  // namespace berth::internal
