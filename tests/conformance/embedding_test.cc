// SPDX-License-Identifier: Apache-2.0

// A loop inside a foreign one, which knows nothing of it but its descriptor.

#include "tests/conformance/engines.h"

#include <berth/event.h>
#include <berth/timer.h>

#include <poll.h>

#include <thread>

namespace berth::test {
namespace {

using namespace std::chrono_literals;

class EmbeddingTest : public EngineTest {
protected:
    void SetUp() override {
        need_kernel("no foreign loop can wait for a simulated one");
        if (!IsSkipped()) EngineTest::SetUp();
    }

    bool is_readable(int timeout_ms) {
        pollfd entry{loop().descriptor().value(), POLLIN, 0};
        return ::poll(&entry, 1, timeout_ms) == 1;
    }
    /// Runs the loop as a foreign one does until there is nothing to do.
    void settle() {
        for (int i = 0; i < 20 && is_readable(0); ++i) {
            ASSERT_TRUE(loop().run_once().has_value());
        }
        EXPECT_FALSE(is_readable(0)) << "nothing to do";
    }
    /// The same until `condition` holds.
    void run_embedded_until(const std::function<bool()>& condition) {
        for (int i = 0; i < 100 && !condition(); ++i) {
            ASSERT_TRUE(is_readable(10'000));
            ASSERT_TRUE(loop().run_once().has_value());
        }
        EXPECT_TRUE(condition());
    }
};

TEST_P(EmbeddingTest, TellsOfWhatComes) {
    auto [client, server] = connect_pair();
    settle();
    Watched<ReceiveLentOperation> receive;
    server.receive(receive);
    settle();
    EXPECT_EQ(receive.completion_count, 0U);
    ASSERT_TRUE(client.write(bytes_of("wake up")).has_value());
    run_embedded_until([&] { return receive.completion_count == 1; });
    receive.data.give_back();
    settle();
}

TEST_P(EmbeddingTest, TellsOfTimers) {
    settle();
    bool has_fired = false;
    Timer timer(loop(), [&] { has_fired = true; });
    timer.start(within(10ms));
    run_embedded_until([&] { return has_fired; });
    settle();
    // The later of two deadlines, then the earlier one.
    has_fired = false;
    timer.start(within(1h));
    settle();
    timer.start(within(5ms));
    run_embedded_until([&] { return has_fired; });
    settle();
}

TEST_P(EmbeddingTest, TellsOfResultsThatAreThereAtOnce) {
    auto [client, server] = connect_pair();
    settle();
    Watched<SendOperation> send;
    ASSERT_EQ(client.send(send, bytes_of("at once")), Start::pending);
    run_embedded_until([&] { return send.completion_count == 1; });
    EXPECT_EQ(text_of(receive_exactly(server, 7)), "at once");
    settle();
    Watched<ReceiveLentOperation> receive;
    server.receive(receive);
    settle();
    receive.cancel();
    run_embedded_until([&] { return receive.completion_count == 1; });
    settle();
    server.receive(receive);
    settle();
    server.close();
    run_embedded_until([&] { return receive.completion_count == 2; });
    settle();
}

TEST_P(EmbeddingTest, TellsOfPosts) {
    settle();
    bool has_run = false;
    std::thread other([&] { loop().post([&] { has_run = true; }); });
    run_embedded_until([&] { return has_run; });
    other.join();
    settle();
}

TEST_P(EmbeddingTest, TellsOfEventsThatAreSetOutsideOfIt) {
    Event event(loop());
    Semaphore semaphore(loop(), 0);
    Watched<WaitOperation> set;
    Watched<WaitOperation> acquired;
    event.wait(set);
    semaphore.acquire(acquired);
    settle();
    event.set();
    run_embedded_until([&] { return set.completion_count == 1; });
    settle();
    semaphore.release();
    run_embedded_until([&] { return acquired.completion_count == 1; });
    settle();
}

BERTH_OVER_EVERY_ENGINE_OF(EmbeddingTest);

}  // namespace
}  // namespace berth::test
