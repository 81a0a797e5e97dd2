// SPDX-License-Identifier: Apache-2.0
// The bytes of a session: every way to cut them, the limits, the ends.
#include "src/tls/tls_machine.h"

#include "tests/tls/machine_pair.h"
#include "tests/tls/raw_peer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>

namespace berth::internal {
namespace {

using tls_test::bytes_of;
using tls_test::client_context;
using tls_test::client_context_of;
using tls_test::Pair;
using tls_test::RawPeer;
using tls_test::says;
using tls_test::server_context;
using tls_test::server_context_of;
using tls_test::Side;

// Bytes that do not repeat with the size of a record or a chunk.
std::string pattern(std::size_t size, std::uint32_t seed = 1) {
    std::string text(size, '\0');
    std::minstd_rand random(seed);
    for (char& letter : text) letter = static_cast<char>(random());
    return text;
}

class TlsMachineOf : public testing::TestWithParam<TlsVersion> {
protected:
    void connect(Pair& pair) {
        pair.run();
        ASSERT_TRUE(pair.are_connected());
    }

    TlsContext client = client_context_of(GetParam());
    TlsContext server = server_context();
};

INSTANTIATE_TEST_SUITE_P(Versions, TlsMachineOf,
                         testing::Values(TlsVersion::tls_1_2, TlsVersion::tls_1_3),
                         [](const testing::TestParamInfo<TlsVersion>& version) {
                             return version.param == TlsVersion::tls_1_2 ? "Tls12" : "Tls13";
                         });

TEST_P(TlsMachineOf, CarriesDataOneByteAtATime) {
    Pair pair(client, server);
    pair.client.unwritten = pattern(300, 1);
    pair.server.unwritten = pattern(300, 2);
    pair.run([] { return 1; });
    EXPECT_EQ(pair.server.plaintext, pattern(300, 1));
    EXPECT_EQ(pair.client.plaintext, pattern(300, 2));
}

TEST_P(TlsMachineOf, CarriesDataInAnyChunks) {
    const std::uint32_t first_seed = std::random_device()();
    for (std::uint32_t seed = first_seed; seed != first_seed + 8; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        const std::size_t size = random() % 200'000;
        Pair pair(client, server);
        pair.client.unwritten = pattern(size, seed);
        pair.server.unwritten = pattern(size / 2, seed + 1);
        // Mostly small, some longer than a record.
        pair.run([&] { return 1 + random() % (random() % 4 == 0 ? 40'000 : 700); });
        EXPECT_TRUE(pair.server.plaintext == pattern(size, seed));
        EXPECT_TRUE(pair.client.plaintext == pattern(size / 2, seed + 1));
        EXPECT_FALSE(pair.client.error);
        EXPECT_FALSE(pair.server.error);
    }
}

TEST_P(TlsMachineOf, HugeWriteIsTakenInPartsUpToTheLimit) {
    Pair pair(client, server, {.host = "host.example"}, {.pending_limit = 50'000});
    connect(pair);
    const std::string text = pattern(1'000'000);
    pair.client.unwritten = text;
    ASSERT_TRUE(pair.client.write());
    const std::size_t taken = text.size() - pair.client.unwritten.size();
    // 4 records: the one that reaches the limit is whole.
    EXPECT_EQ(taken, 4 * 16'384);
    EXPECT_GE(pair.client->pending_ciphertext(), 50'000);
    EXPECT_LE(pair.client->pending_ciphertext(), 4 * (16'384 + 64));
    EXPECT_FALSE(pair.client->can_write());
    EXPECT_FALSE(pair.client.write());
    pair.run();
    EXPECT_TRUE(pair.server.plaintext == text);
    EXPECT_EQ(pair.pool.lent_count(), 0);
}

TEST_P(TlsMachineOf, RecordsAreAsShortAsTheLimitSays) {
    Pair pair(client, server, {.host = "host.example"}, {.record_limit = 100});
    connect(pair);
    pair.client.unwritten = pattern(1000);
    pair.client.write();
    // Each record adds its header and its tag.
    EXPECT_GE(pair.client->pending_ciphertext(), 1000 + 10 * (5 + 16));
    // A record that has arrived can be read before the next one has.
    pair.server.inbox = pair.client.take_output(200);
    pair.server.lend();
    pair.server.read();
    EXPECT_EQ(pair.server.plaintext, pattern(1000).substr(0, 100));
    pair.run();
    EXPECT_EQ(pair.server.plaintext, pattern(1000));
}

TEST_P(TlsMachineOf, CiphertextStaysInPlaceWhileMoreIsWrittenBehindIt) {
    Pair pair(client, server);
    connect(pair);
    pair.client.unwritten = pattern(20'000);
    pair.client.write();
    std::array<iovec, CipherQueue::kChunkLimit> before{};
    const std::size_t piece_count = pair.client->gather_ciphertext(before);
    ASSERT_EQ(piece_count, 2);
    std::string sent;
    for (std::size_t i = 0; i < piece_count; ++i) {
        sent.append(static_cast<const char*>(before[i].iov_base), before[i].iov_len);
    }
    pair.client.unwritten = pattern(20'000, 2);
    pair.client.write();
    std::string still;
    for (std::size_t i = 0; i < piece_count; ++i) {
        still.append(static_cast<const char*>(before[i].iov_base), before[i].iov_len);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(before[i].iov_base) % 4096, 0);
    }
    EXPECT_TRUE(sent == still);
    // As a driver does when its send completes.
    pair.client->consume_ciphertext(sent.size());
    pair.server.inbox = sent;
    pair.run();
    EXPECT_TRUE(pair.server.plaintext == pattern(20'000) + pattern(20'000, 2));
}

TEST_P(TlsMachineOf, IdleSessionHoldsNoChunkAndTakesNoNewOnes) {
    Pair pair(client, server);
    connect(pair);
    EXPECT_EQ(pair.pool.lent_count(), 0);
    const std::size_t idle_count = pair.pool.idle_count();
    for (int i = 0; i < 100; ++i) {
        pair.client.unwritten = "question";
        pair.server.unwritten = "answer";
        pair.run();
    }
    EXPECT_EQ(pair.pool.lent_count(), 0);
    EXPECT_LE(pair.pool.idle_count(), idle_count);
}

TEST_P(TlsMachineOf, NothingIsTakenBeforeTheHandshakeIsDone) {
    CipherChunkPool pool;
    Side side(TlsMachine::client(client, pool, {.host = "host.example"}));
    EXPECT_TRUE(side->has_output());
    EXPECT_TRUE(side->needs_input());
    EXPECT_FALSE(side->can_write());
    side.unwritten = "early";
    EXPECT_FALSE(side.write());
    EXPECT_FALSE(side.read());
    EXPECT_FALSE(side.error);
    side.take_output();
}

TEST_P(TlsMachineOf, LentBytesThatNobodyReadsStayLent) {
    Pair pair(client, server);
    connect(pair);
    pair.client.unwritten = pattern(40'000);
    pair.client.write();
    pair.server.inbox = pair.client.take_output();
    ASSERT_TRUE(pair.server.lend());
    EXPECT_EQ(pair.server->unread_ciphertext() > 0, true);
    EXPECT_FALSE(pair.server->needs_input());
    // One record is taken in to be decrypted; the others wait where they are.
    ASSERT_TRUE(pair.server->advance());
    EXPECT_TRUE(pair.server->has_plaintext());
    EXPECT_GT(pair.server->unread_ciphertext(), 20'000);
    pair.server.read(1000);
    EXPECT_TRUE(pair.server.plaintext == pattern(40'000));
    EXPECT_EQ(pair.server->unread_ciphertext(), 0);
    EXPECT_TRUE(pair.server->needs_input());
}

TEST_P(TlsMachineOf, CloseNotifyIsACleanEnd) {
    Pair pair(client, server);
    connect(pair);
    pair.client.unwritten = "last words";
    pair.client.write();
    EXPECT_TRUE(pair.client->shutdown());
    EXPECT_TRUE(pair.client->shutdown());
    EXPECT_TRUE(pair.client->is_write_closed());
    pair.server.inbox = pair.client.take_output();
    pair.server.lend();
    EXPECT_FALSE(pair.server->is_read_closed());
    pair.server.read(4);
    EXPECT_EQ(pair.server.plaintext, "last words");
    EXPECT_TRUE(pair.server->is_read_closed());
    EXPECT_FALSE(pair.server->needs_input());
    EXPECT_TRUE(pair.server->end_of_input());
    EXPECT_FALSE(pair.server.error);
    pair.server.read();
    EXPECT_FALSE(pair.server.error);
}

TEST_P(TlsMachineOf, HalfClosedSessionGoesOnInTheOtherDirection) {
    Pair pair(client, server);
    connect(pair);
    EXPECT_TRUE(pair.client->shutdown());
    pair.run();
    ASSERT_TRUE(pair.server->is_read_closed());
    pair.server.unwritten = pattern(100'000);
    pair.run();
    EXPECT_TRUE(pair.client.plaintext == pattern(100'000));
    EXPECT_TRUE(pair.server->shutdown());
    pair.run();
    EXPECT_TRUE(pair.client->is_read_closed());
    EXPECT_FALSE(pair.client.error);
    EXPECT_FALSE(pair.server.error);
}

TEST_P(TlsMachineOf, WriteAfterShutdownIsRefused) {
    Pair pair(client, server);
    connect(pair);
    EXPECT_TRUE(pair.client->shutdown());
    EXPECT_TRUE(
        tls_test::fails_with(pair.client->write_plaintext(bytes_of("more")), "after shutdown"));
    EXPECT_EQ(pair.client->write_plaintext(bytes_of("more")).error().code(), Errc::closed);
    EXPECT_FALSE(pair.client->failure());
}

TEST_P(TlsMachineOf, EndWithoutCloseNotifyIsATruncation) {
    Pair pair(client, server);
    connect(pair);
    pair.client.unwritten = "half";
    pair.run();
    const auto end = pair.server->end_of_input();
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code(), Errc::truncated);
    EXPECT_TRUE(
        tls_test::fails_with(end,
                             "tls read host.example: the stream ended too early: there was no "
                             "close_notify"));
    pair.server.read();
    EXPECT_TRUE(says(pair.server.error, "there was no close_notify"));
    EXPECT_FALSE(pair.server->is_read_closed());
}

TEST_P(TlsMachineOf, WhatCameBeforeATruncationCanStillBeRead) {
    Pair pair(client, server);
    connect(pair);
    pair.client.unwritten = pattern(40'000);
    pair.client.write();
    pair.server.inbox = pair.client.take_output();
    pair.server.inbox.pop_back();
    pair.server.lend();
    EXPECT_TRUE(pair.server->end_of_input());
    pair.server.read(1000);
    // Two whole records; of the third, which is cut, nothing.
    EXPECT_TRUE(pair.server.plaintext == pattern(40'000).substr(0, 32'768));
    EXPECT_TRUE(says(pair.server.error, "there was no close_notify"));
}

TEST_P(TlsMachineOf, CloseNotifyAmongTheLastBytesIsFoundAfterTheEndOfInput) {
    Pair pair(client, server);
    connect(pair);
    pair.client.unwritten = "last words";
    pair.client.write();
    EXPECT_TRUE(pair.client->shutdown());
    pair.server.inbox = pair.client.take_output();
    pair.server.lend();
    EXPECT_TRUE(pair.server->end_of_input());
    pair.server.read();
    EXPECT_EQ(pair.server.plaintext, "last words");
    EXPECT_TRUE(pair.server->is_read_closed());
    EXPECT_FALSE(pair.server.error);
}

TEST_P(TlsMachineOf, EndDuringTheHandshakeIsAnError) {
    Pair pair(client, server);
    pair.server.inbox = pair.client.take_output();
    pair.server.lend();
    EXPECT_TRUE(tls_test::fails_with(pair.server->end_of_input(), "the handshake was not done"));
    EXPECT_TRUE(tls_test::fails_with(pair.client->end_of_input(),
                                     "tls handshake host.example: the stream ended too early: the "
                                     "handshake was not done"));
    EXPECT_TRUE(pair.client->failure());
    EXPECT_EQ(pair.client->explain_failure(), pair.client->failure()->message());
    pair.server.take_output();
}

TEST_P(TlsMachineOf, ShutdownDuringTheHandshakeOnlyEndsTheWriting) {
    Pair pair(client, server);
    EXPECT_TRUE(pair.client->shutdown());
    pair.run();
    EXPECT_TRUE(pair.are_connected());
    EXPECT_FALSE(pair.client->can_write());
}

TEST_P(TlsMachineOf, FailureStaysAndIsToldByEveryCall) {
    Pair pair(client, server);
    connect(pair);
    pair.server.inbox = std::string("\x17\x03\x03\x00\x20", 5) + pattern(32);
    pair.server.lend();
    pair.server.read();
    ASSERT_TRUE(pair.server.error);
    std::array<std::byte, 10> buffer{};
    EXPECT_FALSE(pair.server->read_plaintext(buffer));
    EXPECT_FALSE(pair.server->write_plaintext(bytes_of("x")));
    EXPECT_FALSE(pair.server->feed_ciphertext(bytes_of("x")));
    EXPECT_FALSE(pair.server->advance());
    EXPECT_FALSE(pair.server->shutdown());
    EXPECT_FALSE(pair.server->needs_input());
    EXPECT_FALSE(pair.server->can_write());
    EXPECT_EQ(pair.server->unread_ciphertext(), 0);
    // The alert that tells the peer.
    EXPECT_TRUE(pair.server->has_output());
    pair.client.inbox = pair.server.take_output();
    pair.client.lend();
    pair.client.read();
    EXPECT_TRUE(says(pair.client.error,
                     "tls read host.example: TLS failed: a record was damaged "
                     "on its way to the peer"));
}

TEST_P(TlsMachineOf, EmptySpansAreHarmless) {
    Pair pair(client, server);
    EXPECT_TRUE(pair.server->feed_ciphertext({}));
    connect(pair);
    EXPECT_EQ(pair.client->write_plaintext({}).value_or(7), 0);
    EXPECT_EQ(pair.client->read_plaintext({}).value_or(7), 0);
    EXPECT_TRUE(pair.client->feed_ciphertext({}));
    EXPECT_FALSE(pair.client->has_output());
    pair.client.unwritten = "x";
    pair.run();
    EXPECT_EQ(pair.server.plaintext, "x");
}

TEST(TlsMachineKeys, Tls13ChangesItsKeyAfterSoManyRecords) {
    Pair pair(client_context(), server_context(), {.host = "host.example"}, {.records_per_key = 3});
    pair.run();
    for (int i = 0; i < 20; ++i) {
        pair.client.unwritten = "question " + std::to_string(i) + ' ';
        pair.server.unwritten = "answer";
        pair.run();
    }
    EXPECT_FALSE(pair.client.error);
    EXPECT_FALSE(pair.server.error);
    EXPECT_NE(pair.server.plaintext.find("question 19"), std::string::npos);
    EXPECT_EQ(pair.client.plaintext.size(), 20 * 6);
}

TEST(TlsMachineKeys, Tls12HasNoKeyUpdateAndGoesOn) {
    Pair pair(client_context_of(TlsVersion::tls_1_2), server_context(), {.host = "host.example"},
              {.records_per_key = 1});
    pair.client.unwritten = pattern(100'000);
    pair.run();
    EXPECT_TRUE(pair.server.plaintext == pattern(100'000));
}

TEST(TlsMachineKeys, KeyUpdateOfThePeerIsFollowedAndAnswered) {
    RawPeer peer(RawPeer::Role::server);
    peer.start();
    CipherChunkPool pool;
    Side side(TlsMachine::client(client_context(), pool, {.host = "host.example"}));
    peer.run(side);
    ASSERT_TRUE(peer.is_connected() && side->is_handshake_done());
    ASSERT_EQ(SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    peer.write("under a new key");
    side.inbox = peer.take_output();
    side.lend();
    // Also when nobody reads: the answer goes out before the next plaintext.
    EXPECT_TRUE(side->advance());
    side.unwritten = "under mine";
    side.write();
    side.read();
    peer.run(side);
    EXPECT_EQ(side.plaintext, "under a new key");
    EXPECT_EQ(peer.plaintext, "under mine");
    EXPECT_EQ(SSL_get_key_update_type(peer.ssl()), SSL_KEY_UPDATE_NONE);
    EXPECT_FALSE(side.error);
}

}  // namespace
}  // namespace berth::internal
