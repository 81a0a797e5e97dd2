// SPDX-License-Identifier: Apache-2.0

// A server and its clients, as a user of berth writes them.

#include "tests/task/task_test.h"

#include <berth/listener.h>
#include <berth/scope.h>
#include <berth/stream.h>
#include <berth/task.h>
#include <berth/timer.h>
#include <berth/when.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace berth::test {
namespace {

class ServerTest : public EngineTest {};

Task<void> echo(Stream client) {
    while (Lent data = co_await client.receive()) {
        if (!co_await client.send(std::move(data))) {
            break;
        }
    }
}

Task<void> serve(Listener listener, Scope& clients) {
    while (auto client = co_await listener.accept()) {
        clients.spawn(echo(std::move(*client)));
    }
}

Task<Result<std::string>> ask(Loop& loop, Endpoint server, std::string question) {
    Result<Stream> stream = co_await connect(loop, server, within(20s));
    if (!stream) {
        co_return std::unexpected(stream.error());
    }
    if (auto sent = co_await stream->send(std::as_bytes(std::span(question))); !sent) {
        co_return std::unexpected(sent.error());
    }
    std::string answer;
    while (answer.size() < question.size()) {
        const Lent data = co_await stream->receive(within(20s));
        if (!data) {
            co_return std::unexpected(data.error());
        }
        answer.append(reinterpret_cast<const char*>(data.data()), data.size());
    }
    co_return answer;
}

Listener listen(Loop& loop) {
    return Listener::open(loop, Address::loopback(Family::ipv4)).value();
}

TEST_P(ServerTest, ServesManyClientsAndEndsWhenItIsCancelled) {
    Listener listener = listen(loop());
    const Endpoint server = listener.local_endpoint().value();
    auto run = [](Loop& loop, Listener from, Endpoint at_server) -> Task<int> {
        Scope clients;
        Scope servers;
        servers.spawn(serve(std::move(from), clients));
        std::vector<Task<Result<std::string>>> questions;
        for (int i = 0; i < 50; ++i) {
            questions.push_back(ask(loop, at_server, "question " + std::to_string(i)));
        }
        const auto answers = co_await when_all(std::move(questions));
        int right = 0;
        for (std::size_t i = 0; i < answers.size(); ++i) {
            right += answers[i] == "question " + std::to_string(i) ? 1 : 0;
        }
        servers.cancel();
        co_await servers.join();
        clients.cancel();
        co_await clients.join();
        co_return right;
    };
    EXPECT_EQ(block_on(loop(), run(loop(), std::move(listener), server)).value(), 50);
}

TEST_P(ServerTest, ASilentPeerTimesOut) {
    Listener listener = listen(loop());
    const Endpoint server = listener.local_endpoint().value();
    const Result<std::string> answer =
        block_on(loop(), with_timeout(loop(), within(5ms), ask(loop(), server, "anybody there?")));
    EXPECT_EQ(error_of(answer), Errc::timed_out);
    EXPECT_EQ(loop().statistics().pending_count, 0U);
}

TEST_P(ServerTest, TheFirstAnswerWins) {
    Listener silent = listen(loop());
    Listener lively = listen(loop());
    const Endpoint mute = silent.local_endpoint().value();
    const Endpoint server = lively.local_endpoint().value();
    auto run = [](Loop& loop, Endpoint first, Endpoint second, Listener from) -> Task<std::string> {
        Scope clients;
        Scope servers;
        servers.spawn(serve(std::move(from), clients));
        auto race = co_await when_any(ask(loop, first, "hello"), ask(loop, second, "hello"));
        EXPECT_EQ(race.index, 1U);
        EXPECT_EQ(error_of(std::get<0>(race.values)), Errc::cancelled);
        servers.cancel();
        co_await servers.join();
        co_await clients.join();  // the client has closed its end
        co_return std::get<1>(race.values).value();
    };
    EXPECT_EQ(block_on(loop(), run(loop(), mute, server, std::move(lively))).value(), "hello");
}

BERTH_OVER_EVERY_ENGINE_OF(ServerTest);

}  // namespace
}  // namespace berth::test
