// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/engine_test.h"

#include "src/engine/simulation/simulation.h"

#include <unistd.h>

#include <array>
#include <string>
#include <thread>

namespace berth::test {

struct EngineTest::World {
    explicit World(EngineKind kind) {
        if (kind == EngineKind::simulated) {
            simulation.emplace(internal::SimulationOptions{.port_range = {10'000, 60'000}});
        }
    }
    std::optional<internal::Simulation> simulation;
};

EngineTest::EngineTest() = default;
EngineTest::~EngineTest() = default;

void EngineTest::SetUp() {
    world_ = std::make_unique<World>(GetParam());
    start();
}

void EngineTest::start(const LoopOptions& options) {
    Result<Loop> loop = make_loop(options);
    check(loop);
    if (loop) {
        loop_ = std::move(*loop);
    }
}

void EngineTest::need_kernel(const char* reason) {
    if (is_simulated()) {
        GTEST_SKIP() << reason;
    }
    check(make_loop());
}

void EngineTest::check(const Result<Loop>& loop) {
    if (!loop && loop.error().code() == Errc::unsupported) {
        GTEST_SKIP() << loop.error().message();
    }
    ASSERT_TRUE(loop.has_value()) << loop.error().message();
}

void EngineTest::TearDown() {
    if (loop_) {
        EXPECT_EQ(loop_->statistics().pending_count, 0U) << "operations were left behind";
    }
}

Result<Loop> EngineTest::make_loop(const LoopOptions& options) {
    LoopOptions with_engine = options;
    with_engine.engine = GetParam();
    return Loop::create(with_engine);
}

void EngineTest::run_until(const std::function<bool()>& condition) {
    const TimePoint latest = loop().now() + std::chrono::seconds(10);
    while (!condition()) {
        ASSERT_TRUE(loop().run_once(at(latest)).has_value());
        ASSERT_LT(loop().now(), latest) << "what was waited for has not happened";
    }
}

void EngineTest::run_ready() {
    for (int turn = 0; turn < 20; ++turn) {
        ASSERT_TRUE(loop().run_once().has_value());
    }
}

void EngineTest::need_threads() {
    if (is_simulated()) {
        GTEST_SKIP() << "a simulation has one thread";
    }
}

void EngineTest::let_pass(std::chrono::nanoseconds duration) {
    let_pass_until(loop().now() + duration);
}

void EngineTest::let_pass_until(TimePoint when) {
    if (internal::Simulation* simulation = internal::Simulation::active()) {
        simulation->advance(when.time_since_epoch() - simulation->now());
        return;
    }
    while (std::chrono::steady_clock::now() < when) {
        std::this_thread::yield();
    }
}

Endpoint EngineTest::unix_name() const {
    return Endpoint::unix_path("@berth-test-" + std::to_string(::getpid()) +
                               std::string(to_string(GetParam())))
        .value();
}

EngineTest::Pair EngineTest::connect_pair(Family family) {
    return connect_pair_at(Address::loopback(family));
}

EngineTest::Pair EngineTest::connect_pair_at(const Endpoint& local) {
    Pair pair;
    Result<Listener> listener = Listener::open(loop(), local);
    EXPECT_TRUE(listener.has_value()) << listener.error().message();
    Result<Stream> client = Stream::open(loop(), *listener->local_endpoint());
    EXPECT_TRUE(client.has_value()) << client.error().message();
    int accepted = -1;
    Watched<AcceptOperation> accept;
    Watched<ConnectOperation> connect;
    listener->accept(accept, std::span(&accepted, 1));
    client->connect(connect);
    run_until([&] { return accept.completion_count == 1 && connect.completion_count == 1; });
    EXPECT_FALSE(connect.has_failed()) << connect.error().message();
    EXPECT_FALSE(accept.has_failed()) << accept.error().message();
    pair.client = std::move(*client);
    pair.server = listener->take(accepted).value();
    return pair;
}

EngineTest::Everything EngineTest::receive_all(Stream& stream) {
    Everything everything;
    bool is_over = false;
    Watched<ReceiveLentOperation> receive;
    receive.then = [&] {
        const auto bytes = receive.data.bytes();
        everything.bytes.insert(everything.bytes.end(), bytes.begin(), bytes.end());
        if (receive.data) {
            receive.data.give_back();
            stream.receive(receive);
        } else {
            everything.system_errno = receive.data.system_errno();
            is_over = true;
        }
    };
    stream.receive(receive);
    run_until([&] { return is_over; });
    return everything;
}

std::vector<std::byte> EngineTest::receive_exactly(Stream& stream, std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::size_t have = 0;
    bool is_over = size == 0;
    Watched<ReceiveOperation> receive;
    receive.then = [&] {
        have += receive.count();
        is_over = receive.count() == 0 || have == size;
        if (!is_over) {
            stream.receive(receive, std::span(bytes).subspan(have));
        }
    };
    if (!is_over) {
        stream.receive(receive, bytes);
    }
    run_until([&] { return is_over; });
    bytes.resize(have);
    return bytes;
}

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
    std::vector<std::byte> bytes(size);
    std::uint32_t state = seed * 2'654'435'761U + 1;
    for (std::byte& byte : bytes) {
        state = state * 1'664'525U + 1'013'904'223U;
        byte = static_cast<std::byte>(state >> 24);
    }
    return bytes;
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace berth::test
