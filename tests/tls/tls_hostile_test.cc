// SPDX-License-Identifier: Apache-2.0
// Bytes that no honest peer sends: an error at most, and never plaintext that nobody wrote.
#include "tests/tls/machine_pair.h"
#include "tests/tls/raw_peer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace berth::internal {
namespace {

using tls_test::client_context;
using tls_test::client_context_of;
using tls_test::Pair;
using tls_test::RawPeer;
using tls_test::says;
using tls_test::server_context;
using tls_test::server_context_of;
using tls_test::Side;

class TlsHostile : public testing::TestWithParam<TlsVersion> {
protected:
    TlsContext client = client_context_of(GetParam());
    TlsContext server = server_context();
};

INSTANTIATE_TEST_SUITE_P(Versions, TlsHostile,
                         testing::Values(TlsVersion::tls_1_2, TlsVersion::tls_1_3),
                         [](const testing::TestParamInfo<TlsVersion>& version) {
                             return version.param == TlsVersion::tls_1_2 ? "Tls12" : "Tls13";
                         });

TEST_P(TlsHostile, PlainHttpIsTold) {
    CipherChunkPool pool;
    Side side(TlsMachine::server(server, pool));
    side.inbox = "GET / HTTP/1.1\r\nHost: host.example\r\n\r\n";
    side.lend();
    EXPECT_TRUE(says(side.error, "tls accept: TLS failed: the peer sent plain HTTP"));
    side.take_output();
}

TEST_P(TlsHostile, AnotherProtocolIsTold) {
    CipherChunkPool pool;
    Side side(TlsMachine::client(client, pool, {.host = "host.example"}));
    side.inbox = "220 mail.example ESMTP ready\r\n";
    side.lend();
    EXPECT_TRUE(says(side.error,
                     "tls handshake host.example: TLS failed: the peer does not "
                     "speak TLS; check the port"));
    side.take_output();
}

TEST_P(TlsHostile, GarbageInsteadOfAHandshakeIsAnError) {
    std::mt19937 random(4711);
    for (int i = 0; i < 200; ++i) {
        CipherChunkPool pool;
        Side from_server(TlsMachine::client(client, pool, {.host = "host.example"}));
        Side from_client(TlsMachine::server(server, pool));
        std::string garbage(1 + random() % 2000, '\0');
        for (char& letter : garbage) letter = static_cast<char>(random());
        for (Side* side : {&from_server, &from_client}) {
            side->inbox = garbage;
            while (side->lend(1 + random() % 64)) side->read();
            // Too little to judge is an error at the end.
            EXPECT_TRUE(side->error || !(*side)->end_of_input());
            EXPECT_EQ(side->plaintext, "");
            side->take_output();
        }
    }
}

TEST_P(TlsHostile, EveryFlippedBitOfARecordIsNoticed) {
    const std::string text = "four score and seven";
    Pair probe(client, server);
    probe.run();
    probe.client.unwritten = text;
    probe.client.write();
    const std::size_t record_size = probe.client.take_output().size();
    for (std::size_t bit = 0; bit < 8 * record_size; bit += 3) {
        Pair pair(client, server);
        pair.run();
        pair.client.unwritten = text;
        pair.client.write();
        pair.server.inbox = pair.client.take_output();
        char& letter = pair.server.inbox[bit / 8];
        letter = static_cast<char>(letter ^ (1 << bit % 8));
        pair.server.lend();
        pair.server.read();
        EXPECT_EQ(pair.server.plaintext, "") << "bit " << bit;
        // A longer length only makes the server wait for the rest.
        EXPECT_TRUE(pair.server.error || !pair.server->end_of_input()) << "bit " << bit;
        pair.server.take_output();
    }
}

TEST_P(TlsHostile, RepeatedSwappedAndMissingRecordsAreNoticed) {
    for (const int order : {0, 1, 2}) {
        Pair pair(client, server);
        pair.run();
        std::array<std::string, 2> records;
        for (std::string& record : records) {
            pair.client.unwritten = "same text";
            pair.client.write();
            record = pair.client.take_output();
        }
        const std::array<std::string, 3> wires = {records[0] + records[0], records[1] + records[0],
                                                  records[1]};
        pair.server.inbox = wires[static_cast<std::size_t>(order)];
        pair.server.lend();
        pair.server.read();
        EXPECT_TRUE(says(pair.server.error, "a record was damaged or forged on its way")) << order;
        EXPECT_EQ(pair.server.plaintext, order == 0 ? "same text" : "");
        pair.server.take_output();
    }
}

TEST_P(TlsHostile, RecordLongerThanAllowedIsRefused) {
    Pair pair(client, server);
    pair.run();
    pair.server.inbox = std::string("\x17\x03\x03\xff\xff", 5) + std::string(70'000, 'x');
    pair.server.lend();
    pair.server.read();
    EXPECT_TRUE(pair.server.error);
    EXPECT_EQ(pair.server.plaintext, "");
    pair.server.take_output();
}

TEST_P(TlsHostile, PlaintextRecordAfterTheHandshakeIsRefused) {
    Pair pair(client, server);
    pair.run();
    pair.server.inbox = std::string("\x17\x03\x03\x00\x05hello", 10);
    pair.server.lend();
    pair.server.read();
    EXPECT_TRUE(pair.server.error);
    EXPECT_EQ(pair.server.plaintext, "");
    pair.server.take_output();
}

TEST_P(TlsHostile, UnencryptedCloseNotifyIsNoCleanEnd) {
    Pair pair(client, server);
    pair.run();
    pair.client.inbox = std::string("\x15\x03\x03\x00\x02\x01\x00", 7);
    pair.client.lend();
    pair.client.read();
    EXPECT_FALSE(pair.client->is_read_closed());
    EXPECT_TRUE(pair.client.error);
    pair.client.take_output();
}

std::uint32_t seed_of_this_run() {
    const char* given = std::getenv("BERTH_TEST_SEED");
    return given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10))
                            : std::random_device()();
}

// Changes some bytes, cuts some out, repeats some.
std::string mutated(std::string wire, std::mt19937& random) {
    const std::size_t change_count = 1 + random() % 3;
    for (std::size_t i = 0; i < change_count && !wire.empty(); ++i) {
        const std::size_t at = random() % wire.size();
        const std::size_t size = 1 + random() % 20;
        switch (random() % 4) {
            case 0:
                wire[at] = static_cast<char>(wire[at] ^ (1 << random() % 8));
                break;
            case 1:
                wire.erase(at, size);
                break;
            case 2:
                wire.insert(at, wire.substr(random() % wire.size(), size));
                break;
            default:
                wire[at] = static_cast<char>(random());
                break;
        }
    }
    return wire;
}

// Both sides talk while one flight, drawn at random, is mutated.
void talk_with_one_mutation(Pair& pair, std::mt19937& random) {
    std::size_t flights_until = random() % 9;
    const std::string client_text(random() % 30'000, 'c');
    const std::string server_text(random() % 30'000, 's');
    pair.client.unwritten = client_text;
    pair.server.unwritten = server_text;
    for (bool moves = true; moves;) {
        moves = false;
        for (const auto& [from, to] :
             {std::pair(&pair.client, &pair.server), std::pair(&pair.server, &pair.client)}) {
            moves = from->write(1 + random() % 20'000) || moves;
            std::string output = from->take_output();
            if (!output.empty() && flights_until-- == 0) output = mutated(output, random);
            moves = moves || !output.empty();
            to->inbox += output;
            while (to->lend(1 + random() % 20'000)) to->read();
        }
    }
    EXPECT_TRUE(client_text.starts_with(pair.server.plaintext));
    EXPECT_TRUE(server_text.starts_with(pair.client.plaintext));
    for (Side* side : {&pair.client, &pair.server}) {
        static_cast<void>((*side)->end_of_input());
        static_cast<void>((*side)->explain_failure());
        EXPECT_FALSE((*side)->is_read_closed());
    }
}

TEST_P(TlsHostile, MutatedCiphertextNeverCrashesNorBecomesPlaintext) {
    const std::uint32_t seed = seed_of_this_run();
    std::printf("replay with BERTH_TEST_SEED=%u and this test's --gtest_filter\n", seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 400; ++i) {
        Pair pair(client, server, {.host = "host.example"});
        talk_with_one_mutation(pair, random);
        if (HasFailure()) {
            FAIL() << "round " << i << " of seed " << seed;
        }
    }
}

TEST(TlsHostileServer, RenegotiationIsRefused) {
    RawPeer peer(RawPeer::Role::server, TlsVersion::tls_1_2);
    peer.start();
    CipherChunkPool pool;
    Side side(TlsMachine::client(client_context(), pool, {.host = "host.example"}));
    peer.run(side);
    ASSERT_TRUE(peer.is_connected() && side->is_handshake_done());
    ASSERT_EQ(SSL_renegotiate(peer.ssl()), 1);
    SSL_do_handshake(peer.ssl());
    side.inbox = peer.take_output();
    side.lend();
    side.read();
    // A warning says no, and the session would go on; this peer then ends it.
    EXPECT_FALSE(side.error);
    EXPECT_TRUE(side->has_output());
    peer.run(side);
    EXPECT_EQ(peer.error, "no renegotiation");
}

TEST(TlsHostileServer, ClientsRenegotiationIsRefused) {
    RawPeer peer(RawPeer::Role::client, TlsVersion::tls_1_2);
    SSL_CTX_clear_options(peer.context(), SSL_OP_NO_RENEGOTIATION);
    peer.start();
    CipherChunkPool pool;
    Side side(TlsMachine::server(server_context(), pool));
    peer.run(side);
    ASSERT_TRUE(peer.is_connected() && side->is_handshake_done());
    ASSERT_EQ(SSL_renegotiate(peer.ssl()), 1);
    SSL_do_handshake(peer.ssl());
    side.inbox = peer.take_output();
    side.lend();
    side.read();
    // A warning says no, and the session would go on; this peer then ends it.
    EXPECT_FALSE(side.error);
    EXPECT_TRUE(side->has_output());
    peer.run(side);
    EXPECT_EQ(peer.error, "no renegotiation");
}

TEST(TlsHostileServer, PeerThatWantsAnswersWithoutTakingThemIsCutOff) {
    RawPeer peer(RawPeer::Role::server, TlsVersion::tls_1_2);
    peer.start();
    CipherChunkPool pool;
    Side side(TlsMachine::client(client_context(), pool, {.host = "host.example"}));
    peer.run(side);
    ASSERT_TRUE(side->is_handshake_done());
    // Each HelloRequest is answered by a warning.
    for (int i = 0; i < 20'000 && !side.error; ++i) {
        ASSERT_EQ(SSL_renegotiate(peer.ssl()), 1);
        ASSERT_EQ(SSL_do_handshake(peer.ssl()), 1);
        side.inbox = peer.take_output();
        while (side.lend()) side.read();
    }
    EXPECT_TRUE(says(side.error, "the peer asks for answers and does not take them"));
    EXPECT_LE(side->pending_ciphertext(), CipherQueue::kCapacity);
}

int choose_what_nobody_offered(SSL* /*ssl*/, const unsigned char** out, unsigned char* size,
                               const unsigned char* /*in*/, unsigned /*in_size*/, void* /*arg*/) {
    static const unsigned char kName[] = {'h', '3'};
    *out = kName;
    *size = sizeof kName;
    return SSL_TLSEXT_ERR_OK;
}

TEST(TlsHostileServer, ProtocolThatWasNotOfferedIsRefused) {
    RawPeer peer(RawPeer::Role::server);
    SSL_CTX_set_alpn_select_cb(peer.context(), choose_what_nobody_offered, nullptr);
    peer.start();
    CipherChunkPool pool;
    Side side(TlsMachine::client(client_context({.alpn = {"h2"}}), pool, {.host = "host.example"}));
    peer.run(side);
    EXPECT_TRUE(says(side.error, "bad extension"));
}

TEST(TlsHostileServer, NameThatIsNoHostCountsAsNone) {
    const TlsContext server = server_context();
    CipherChunkPool pool;
    RawPeer peer(RawPeer::Role::client);
    peer.server_name = "host.example\x1b[31m";
    peer.start();
    Side side(TlsMachine::server(server, pool));
    peer.run(side);
    EXPECT_TRUE(side->is_handshake_done());
    EXPECT_EQ(side->server_name(), "");
}

TEST(TlsHostileServer, EarlyDataIsPassedOver) {
    const TlsContext server = server_context();
    CipherChunkPool pool;
    RawPeer first(RawPeer::Role::client);
    Side first_side(TlsMachine::server(server, pool));
    first.start();
    first.run(first_side);
    const SessionHandle session(SSL_get1_session(first.ssl()));
    EXPECT_EQ(SSL_SESSION_get_max_early_data(session.get()), 0U);
    // A client that sends some all the same.
    SSL_SESSION_set_max_early_data(session.get(), 1000);
    RawPeer second(RawPeer::Role::client);
    Side second_side(TlsMachine::server(server, pool));
    second.start(session.get(), "early");
    second.run(second_side);
    second.write("late");
    second.run(second_side);
    EXPECT_FALSE(second_side.error);
    EXPECT_TRUE(second_side->was_resumed());
    EXPECT_EQ(second_side.plaintext, "late");
}

}  // namespace
}  // namespace berth::internal
