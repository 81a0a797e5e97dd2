// SPDX-License-Identifier: Apache-2.0
#include "tests/tls/machine_pair.h"
#include "tests/tls/raw_peer.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using tls_test::certificate_for;
using tls_test::client_context;
using tls_test::client_context_of;
using tls_test::Pair;
using tls_test::server_context;

// Connects, and returns the ticket that came of it; empty when none did.
TlsSessionTicket connect(const TlsContext& client, const TlsContext& server, bool expect_resumed,
                         TlsSessionTicket ticket = {}, std::string host = "host.example") {
    Pair pair(client, server, {.host = host, .ticket = std::move(ticket)});
    pair.client.unwritten = "question";
    pair.server.unwritten = "answer";
    pair.run();
    EXPECT_TRUE(pair.are_connected());
    EXPECT_EQ(pair.client->was_resumed(), expect_resumed);
    EXPECT_EQ(pair.server->was_resumed(), expect_resumed);
    EXPECT_EQ(pair.server.plaintext, "question");
    EXPECT_EQ(pair.client.plaintext, "answer");
    EXPECT_EQ(pair.client->server_name(), host);
    return pair.client->take_session_ticket().value_or(TlsSessionTicket());
}

class TlsResumption : public testing::TestWithParam<TlsVersion> {};

INSTANTIATE_TEST_SUITE_P(Versions, TlsResumption,
                         testing::Values(TlsVersion::tls_1_2, TlsVersion::tls_1_3),
                         [](const testing::TestParamInfo<TlsVersion>& version) {
                             return version.param == TlsVersion::tls_1_2 ? "Tls12" : "Tls13";
                         });

TEST_P(TlsResumption, TicketMakesTheNextHandshakeShort) {
    const TlsContext client = client_context_of(GetParam());
    const TlsContext server = server_context();
    TlsSessionTicket ticket = connect(client, server, false);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(ticket.host(), "host.example");
    // And so on, from connection to connection.
    for (int i = 0; i < 3; ++i) {
        ticket = connect(client, server, true, std::move(ticket));
        ASSERT_TRUE(ticket);
    }
}

TEST_P(TlsResumption, KeepsWhoThePeerIs) {
    const TlsContext client =
        client_context_of(GetParam(), {.identity = certificate_for("user").identity()});
    const TlsContext server =
        server_context({.client_certificate = TlsClientCertificate::required,
                        .client_ca_text = tls_test::test_ca().certificate_pem()});
    Pair pair(client, server, {.host = "host.example", .ticket = connect(client, server, false)});
    pair.run();
    EXPECT_TRUE(pair.server->was_resumed());
    EXPECT_EQ(pair.server->peer_certificate_subject(), "CN=user");
    EXPECT_EQ(pair.client->peer_certificate_subject(), "CN=host.example");
}

TEST_P(TlsResumption, TicketForAnotherHostIsLeftAside) {
    const TlsContext client = client_context_of(GetParam());
    const TlsContext server =
        server_context({.identity = certificate_for("host.example").identity(),
                        .named_identities = {certificate_for("a.example").identity()}});
    TlsSessionTicket ticket = connect(client, server, false);
    connect(client, server, false, std::move(ticket), "a.example");
}

// Else a session made without verification would pass for a verified one.
TEST_P(TlsResumption, TicketOfAnotherContextIsLeftAside) {
    const TlsContext server = server_context();
    TlsSessionTicket ticket = connect(
        client_context_of(GetParam(), {.verification = TlsVerification::none}), server, false);
    connect(client_context_of(GetParam()), server, false, std::move(ticket));
}

TEST_P(TlsResumption, TicketOfARestartedServerMeansAFullHandshake) {
    const TlsContext client = client_context_of(GetParam());
    TlsSessionTicket ticket = connect(client, server_context(), false);
    ASSERT_TRUE(ticket);
    connect(client, server_context(), false, std::move(ticket));
}

TEST_P(TlsResumption, ServerWithoutTicketsAndCacheResumesNothing) {
    const TlsContext client = client_context_of(GetParam());
    const TlsContext server = server_context({.session_tickets = false});
    TlsSessionTicket ticket = connect(client, server, false);
    connect(client, server, false, std::move(ticket));
}

TEST_P(TlsResumption, ServerWithoutTicketsResumesFromItsCache) {
    const TlsContext client = client_context_of(GetParam());
    const TlsContext server = server_context({.session_tickets = false, .session_cache_size = 100});
    TlsSessionTicket ticket = connect(client, server, false);
    ASSERT_TRUE(ticket);
    connect(client, server, true, std::move(ticket));
}

TEST_P(TlsResumption, TicketIsGoodForANamedIdentityToo) {
    const TlsContext client = client_context_of(GetParam());
    const TlsContext server =
        server_context({.named_identities = {certificate_for("a.example").identity()}});
    TlsSessionTicket ticket = connect(client, server, false, {}, "a.example");
    connect(client, server, true, std::move(ticket), "a.example");
}

TEST_P(TlsResumption, ConnectionCutOffWithoutCloseNotifyDoesNotSpoilTheTicket) {
    const TlsContext client = client_context_of(GetParam());
    const TlsContext server = server_context({.session_tickets = false, .session_cache_size = 9});
    TlsSessionTicket ticket;
    {
        Pair pair(client, server);
        pair.run();
        ticket = pair.client->take_session_ticket().value_or(TlsSessionTicket());
        EXPECT_FALSE(pair.client->end_of_input());
        EXPECT_FALSE(pair.server->end_of_input());
    }
    connect(client, server, true, std::move(ticket));
}

TEST_P(TlsResumption, TicketOutlivesItsContextAndChangesThreads) {
    const TlsContext server = server_context();
    TlsSessionTicket ticket;
    std::thread([&] { ticket = connect(client_context_of(GetParam()), server, false); }).join();
    EXPECT_TRUE(ticket);
    connect(client_context_of(GetParam()), server, false, std::move(ticket));
}

TEST_P(TlsResumption, ManyThreadsShareBothContexts) {
    const TlsContext client = client_context_of(GetParam());
    const TlsContext server = server_context({.session_cache_size = 10});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&client, &server] {
            TlsSessionTicket ticket = connect(client, server, false);
            for (int turn = 0; turn < 10; ++turn) {
                ticket = connect(client, server, true, std::move(ticket));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST(TlsTickets, OfTls13ArriveAfterTheHandshake) {
    Pair pair(client_context_of(TlsVersion::tls_1_3), server_context());
    pair.server.inbox = pair.client.take_output();
    pair.server.lend();
    pair.client.inbox = pair.server.take_output();
    pair.client.lend();
    ASSERT_TRUE(pair.client->is_handshake_done());
    EXPECT_FALSE(pair.client->has_session_ticket());
    EXPECT_FALSE(pair.client->take_session_ticket());
    pair.run();
    // OpenSSL's servers send two, each for one connection.
    EXPECT_TRUE(pair.client->has_session_ticket());
    EXPECT_TRUE(pair.client->take_session_ticket());
    EXPECT_TRUE(pair.client->take_session_ticket());
    EXPECT_FALSE(pair.client->take_session_ticket());
}

TEST(TlsTickets, OnlyTheLatestFewAreKept) {
    tls_test::RawPeer peer(tls_test::RawPeer::Role::server);
    SSL_CTX_set_num_tickets(peer.context(), 50);
    peer.start();
    CipherChunkPool pool;
    tls_test::Side side(TlsMachine::client(client_context(), pool, {.host = "host.example"}));
    peer.run(side);
    unsigned ticket_count = 0;
    while (side->take_session_ticket()) ++ticket_count;
    EXPECT_EQ(ticket_count, SessionNotes::kTicketLimit);
}

TEST(TlsTickets, EmptyOneIsNoTicket) {
    TlsSessionTicket ticket;
    EXPECT_FALSE(ticket);
    EXPECT_EQ(ticket.host(), "");
}

}  // namespace
}  // namespace berth::internal
