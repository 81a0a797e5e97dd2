// SPDX-License-Identifier: Apache-2.0

// TLS over streams of the loop: what a user of it writes, on both sides of one pair of sockets.

#include <berth/tls_stream.h>

#include "tests/task/task_test.h"
#include "tests/tls/machine_pair.h"

#include <berth/stream.h>
#include <berth/timer.h>
#include <berth/when.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace berth::tls_test {
namespace {

using test::error_of;
using namespace std::chrono_literals;

constexpr Deadline kNone = {};

class TlsStreamTest : public test::EngineTest {
protected:
    void TearDown() override {
        if (!IsSkipped()) {
            // Streams that are gone still send that their side has ended.
            run_until([this] { return loop().statistics().pending_count == 0; });
        }
        EngineTest::TearDown();
    }

    struct Secured {
        Result<TlsStream> client;
        Result<TlsStream> server;
    };

    Secured shake_hands(TlsContext client_side, TlsContext server_side,
                        std::string_view host = "host.example", TlsSessionTicket ticket = {}) {
        Pair streams = connect_pair();
        auto secured = block_on(
            loop(), when_all(TlsStream::resume(std::move(streams.client), std::move(client_side),
                                               {.host = host}, std::move(ticket), within(20s)),
                             TlsStream::accept(std::move(streams.server), std::move(server_side),
                                               within(20s))));
        return {std::move(std::get<0>(*secured)), std::move(std::get<1>(*secured))};
    }
    Secured shake_hands() { return shake_hands(client_context(), server_context()); }
};

/// Until the peer has said that nothing more comes.
Task<Result<std::string>> read_all(TlsStream& stream, std::size_t step = 64 * 1024) {
    std::string text;
    std::vector<std::byte> buffer(step);
    for (;;) {
        const Result<std::size_t> count = co_await stream.receive_into(buffer, within(20s));
        if (!count) {
            co_return std::unexpected(count.error());
        }
        if (*count == 0) {
            co_return text;
        }
        text.append(reinterpret_cast<const char*>(buffer.data()), *count);
    }
}

Task<Result<void>> send_all(TlsStream& stream, std::string_view text) {
    const Result<void> sent = co_await stream.send(bytes_of(text), within(20s));
    if (!sent) {
        co_return sent;
    }
    co_return stream.shut_down_write();
}

std::string pattern(std::size_t size) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) {
        text[i] = static_cast<char>(i * 7 + (i >> 8U));
    }
    return text;
}

TEST_P(TlsStreamTest, BothSidesAgree) {
    const Secured secured = shake_hands(client_context({.alpn = {"h2", "http/1.1"}}),
                                        server_context({.alpn = {"http/1.1"}}));
    ASSERT_TRUE(succeeded(secured.client));
    ASSERT_TRUE(succeeded(secured.server));
    EXPECT_EQ(secured.client->version(), TlsVersion::tls_1_3);
    EXPECT_EQ(secured.server->version(), TlsVersion::tls_1_3);
    EXPECT_EQ(secured.client->alpn(), "http/1.1");
    EXPECT_EQ(secured.server->server_name(), "host.example");
    EXPECT_EQ(secured.client->cipher(), secured.server->cipher());
    EXPECT_NE(secured.client->peer_certificate_subject(), "");
    EXPECT_FALSE(secured.client->was_resumed());
}

TEST_P(TlsStreamTest, ManyBytesArriveInBothDirectionsAtOnce) {
    Secured secured = shake_hands();
    ASSERT_TRUE(secured.client && secured.server);
    const std::string question = pattern(3'000'000);
    const std::string answer = pattern(2'000'001);
    auto all = block_on(
        loop(), when_all(send_all(*secured.client, question), read_all(*secured.client, 1'000),
                         send_all(*secured.server, answer), read_all(*secured.server)));
    ASSERT_TRUE(all);
    EXPECT_TRUE(std::get<0>(*all));
    EXPECT_EQ(std::get<1>(*all), answer);
    EXPECT_TRUE(std::get<2>(*all));
    EXPECT_EQ(std::get<3>(*all), question);
}

TEST_P(TlsStreamTest, ReceivingGoesOnAfterTheOwnEnd) {
    Secured secured = shake_hands();
    ASSERT_TRUE(secured.client && secured.server);
    ASSERT_TRUE(secured.client->shut_down_write());
    EXPECT_EQ(error_of(block_on(loop(), secured.client->send(bytes_of("late"), kNone))),
              Errc::closed);
    auto both = block_on(
        loop(), when_all(read_all(*secured.server), send_all(*secured.server, "still here"),
                         read_all(*secured.client)));
    EXPECT_EQ(std::get<0>(*both), "");
    EXPECT_EQ(std::get<2>(*both), "still here");
}

TEST_P(TlsStreamTest, AnEndWithoutCloseNotifyIsTruncated) {
    Secured secured = shake_hands();
    ASSERT_TRUE(secured.client && secured.server);
    ASSERT_TRUE(block_on(loop(), secured.server->send(bytes_of("half a"), kNone)));
    secured.server->close();
    std::array<std::byte, 64> buffer;
    EXPECT_EQ(block_on(loop(), secured.client->receive_into(buffer, within(20s))), 6U);
    EXPECT_EQ(error_of(block_on(loop(), secured.client->receive_into(buffer, within(20s)))),
              Errc::truncated);
}

TEST_P(TlsStreamTest, AHandshakeThatIsCutOffIsTruncated) {
    Pair streams = connect_pair();
    streams.server.close();
    const auto secured =
        block_on(loop(), TlsStream::connect(std::move(streams.client), client_context(),
                                            {.host = "host.example"}, within(20s)));
    EXPECT_TRUE(error_of(secured) == Errc::truncated || error_of(secured) == Errc::closed)
        << secured.error().message();
}

TEST_P(TlsStreamTest, AHandshakeHasADeadline) {
    Pair streams = connect_pair();
    const auto secured = block_on(
        loop(), TlsStream::accept(std::move(streams.server), server_context(), within(10ms)));
    EXPECT_EQ(error_of(secured), Errc::timed_out);
}

// As a whole, not for each piece that comes.
TEST_P(TlsStreamTest, AHandshakeWithAPeerThatDripsHasADeadline) {
    Pair streams = connect_pair();
    // A record of 16,000 bytes, which nobody waits for.
    const auto record = std::to_array<unsigned char>({0x16, 0x03, 0x01, 0x3e, 0x80});
    ASSERT_TRUE(streams.client.write(std::as_bytes(std::span(record))).has_value());
    Timer drip(loop(), [&] {
        static_cast<void>(streams.client.write(std::as_bytes(std::span(record)).last(1)));
    });
    drip.start_every(5ms);
    const TimePoint start = loop().now();
    const auto secured = block_on(
        loop(), TlsStream::accept(std::move(streams.server), server_context(), within(200ms)));
    EXPECT_EQ(error_of(secured), Errc::timed_out);
    EXPECT_LT(loop().now() - start, 30s);
}

TEST_P(TlsStreamTest, AReceiveThatTimesOutLosesNothing) {
    Secured secured = shake_hands();
    ASSERT_TRUE(secured.client && secured.server);
    std::array<std::byte, 64> buffer;
    EXPECT_EQ(error_of(block_on(loop(), secured.client->receive_into(buffer, within(10ms)))),
              Errc::timed_out);
    ASSERT_TRUE(block_on(loop(), send_all(*secured.server, "at last")));
    EXPECT_EQ(block_on(loop(), read_all(*secured.client)), "at last");
}

TEST_P(TlsStreamTest, ACancelledHandshakeIsOver) {
    Pair streams = connect_pair();
    const auto secured = block_on(
        loop(), with_timeout(loop(), within(10ms),
                             TlsStream::accept(std::move(streams.server), server_context())));
    EXPECT_EQ(error_of(secured), Errc::timed_out);
}

TEST_P(TlsStreamTest, ACancelledReceiveLosesNothing) {
    Secured secured = shake_hands();
    ASSERT_TRUE(secured.client && secured.server);
    std::array<std::byte, 64> buffer;
    EXPECT_EQ(error_of(block_on(loop(), with_timeout(loop(), within(10ms),
                                                     secured.client->receive_into(buffer)))),
              Errc::timed_out);
    ASSERT_TRUE(block_on(loop(), send_all(*secured.server, "at last")));
    EXPECT_EQ(block_on(loop(), read_all(*secured.client)), "at last");
}

// What was taken arrives, whole records with an end of their own.
TEST_P(TlsStreamTest, ACancelledSendLeavesNothingHalfSent) {
    Secured secured = shake_hands();
    ASSERT_TRUE(secured.client && secured.server);
    const std::string text = pattern(32 << 20);
    EXPECT_EQ(error_of(block_on(loop(), with_timeout(loop(), within(10ms),
                                                     secured.client->send(bytes_of(text))))),
              Errc::timed_out);
    ASSERT_TRUE(secured.client->shut_down_write());
    const Result<std::string> received = block_on(loop(), read_all(*secured.server));
    ASSERT_TRUE(received) << received.error().message();
    EXPECT_LT(received->size(), text.size());
    EXPECT_TRUE(text.starts_with(*received));
}

TEST_P(TlsStreamTest, BothSidesLearnThatACertificateIsForAnotherHost) {
    for (const TlsVersion version : {TlsVersion::tls_1_2, TlsVersion::tls_1_3}) {
        const Secured secured =
            shake_hands(client_context_of(version), server_context_of(version), "other.example");
        EXPECT_EQ(error_of(secured.client), Errc::certificate_rejected);
        EXPECT_TRUE(fails_with(secured.client, "other.example"));
        EXPECT_EQ(error_of(secured.server), Errc::tls_failed);
        EXPECT_TRUE(fails_with(secured.server, "bad_certificate"));
    }
}

TEST_P(TlsStreamTest, AHostThatIsNoneIsRefusedAtOnce) {
    Pair streams = connect_pair();
    const auto secured = block_on(
        loop(), TlsStream::connect(std::move(streams.client), client_context(), {.host = "a b"}));
    EXPECT_EQ(error_of(secured), Errc::invalid_argument);
}

TEST_P(TlsStreamTest, ASessionIsResumed) {
    const TlsContext client_side = client_context();
    const TlsContext server_side = server_context();
    Secured first = shake_hands(client_side, server_side);
    ASSERT_TRUE(first.client && first.server);
    ASSERT_TRUE(block_on(loop(), send_all(*first.server, "x")));
    ASSERT_EQ(block_on(loop(), read_all(*first.client)), "x");
    std::optional<TlsSessionTicket> ticket = first.client->take_session_ticket();
    ASSERT_TRUE(ticket);
    const Secured second =
        shake_hands(client_side, server_side, "host.example", std::move(*ticket));
    ASSERT_TRUE(succeeded(second.client));
    EXPECT_TRUE(second.client->was_resumed());
    EXPECT_TRUE(second.server->was_resumed());
}

// Nobody reads: send() waits instead of keeping whatever it is given.
TEST_P(TlsStreamTest, SendingWaitsForASlowReader) {
    Secured secured = shake_hands();
    ASSERT_TRUE(secured.client && secured.server);
    const std::string text = pattern(8'000'000);
    EXPECT_EQ(error_of(block_on(loop(), secured.client->send(bytes_of(text), within(50ms)))),
              Errc::timed_out);
    // What was taken before the deadline arrives, in whole.
    ASSERT_TRUE(secured.client->shut_down_write());
    const auto read = block_on(loop(), read_all(*secured.server));
    ASSERT_TRUE(succeeded(read));
    EXPECT_GT(read->size(), 0U);
    EXPECT_LT(read->size(), text.size());
    EXPECT_EQ(*read, text.substr(0, read->size()));
}

TEST_P(TlsStreamTest, APeerThatSpeaksSomethingElseIsAnError) {
    Pair streams = connect_pair();
    ASSERT_TRUE(streams.client.write(bytes_of("GET / HTTP/1.0\r\n\r\n")));
    const auto secured = block_on(
        loop(), TlsStream::accept(std::move(streams.server), server_context(), within(20s)));
    EXPECT_EQ(error_of(secured), Errc::tls_failed);
}

BERTH_OVER_EVERY_ENGINE_OF(TlsStreamTest);

}  // namespace
}  // namespace berth::tls_test
