// SPDX-License-Identifier: Apache-2.0

// What a message costs, by the loop's own count: no change of interest, and with very many sockets
// that are idle no more than without.

#include "src/engine/simulation/simulation.h"
#include "tests/conformance/engines.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>

namespace berth::test {
namespace {

using internal::Simulation;

constexpr unsigned kMessages = 1000;

/// Sends back what comes, for ever.
class Echo {
public:
    explicit Echo(Stream& stream) : stream_(stream) {
        receive_.then = [this] { answer(); };
        stream_.receive(receive_);
    }

private:
    void answer() {
        if (!receive_.data) {
            return;
        }
        EXPECT_TRUE(stream_.write(receive_.data.bytes()).has_value());
        receive_.data.give_back();
        stream_.receive(receive_);
    }

    Stream& stream_;
    Watched<ReceiveLentOperation> receive_;
};

class IdleSocketsTest : public EngineTest {
protected:
    /// A connection over which what was sent is there at once.
    Pair connect_unix_pair() { return connect_pair_at(unix_name()); }
    std::array<Stream, 2> make_pair() {
        std::array<int, 2> ends = {-1, -1};
        if (Simulation* simulation = Simulation::active()) {
            ends = simulation->make_socket_pair(SOCK_STREAM);
        } else {
            EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        }
        return {Stream::adopt(loop(), Descriptor(ends[0])).value(),
                Stream::adopt(loop(), Descriptor(ends[1])).value()};
    }

    /// `count` messages there and back, one at a time; what the loop has counted for them.
    LoopStatistics exchange(Stream& client, unsigned count) {
        const LoopStatistics before = loop().statistics();
        unsigned echoed = 0;
        Watched<ReceiveLentOperation> receive;
        const auto send = [&] { EXPECT_TRUE(client.write(bytes_of("message")).has_value()); };
        receive.then = [&] {
            ASSERT_EQ(text_of(receive.data.bytes()), "message");
            receive.data.give_back();
            if (++echoed < count) {
                client.receive(receive);
                send();
            }
        };
        client.receive(receive);
        send();
        run_until([&] { return echoed == count; });
        LoopStatistics counted = loop().statistics();
        counted.iteration_count -= before.iteration_count;
        counted.completion_count -= before.completion_count;
        counted.wait_count -= before.wait_count;
        counted.interest_count -= before.interest_count;
        counted.submission_count -= before.submission_count;
        counted.wake_count -= before.wake_count;
        return counted;
    }
};

TEST_P(IdleSocketsTest, MessagesChangeNoInterest) {
    auto [client, server] = connect_pair();
    const Echo echo(server);
    exchange(client, 10);
    const LoopStatistics counted = exchange(client, kMessages);
    EXPECT_EQ(counted.interest_count, 0U);
    EXPECT_EQ(counted.wake_count, 0U);
    EXPECT_GE(counted.completion_count, 2 * kMessages);
    if (GetParam() != EngineKind::epoll && !is_simulated()) {
        EXPECT_EQ(loop().statistics().interest_count, 0U) << "there is no epoll";
    }
}

// Nor do those that wait for room.
TEST_P(IdleSocketsTest, LargeMessagesChangeNoInterest) {
    const std::vector<std::byte> message = pattern(1 << 20);
    auto [client, server] = make_pair();
    const auto pass = [&](Stream& from, Stream& to) {
        ASSERT_TRUE(from.write(message).has_value());
        ASSERT_GT(from.queued_size(), 0U) << "it does not wait";
        ASSERT_TRUE(receive_exactly(to, message.size()) == message);
    };
    const auto exchange_large = [&, &near = client, &far = server] {
        pass(near, far);
        pass(far, near);
    };
    exchange_large();
    const std::uint64_t before = loop().statistics().interest_count;
    for (int i = 0; i < 20; ++i) {
        exchange_large();
    }
    EXPECT_EQ(loop().statistics().interest_count, before);
}

// Each connection is told to epoll once, whether it is used or not.
TEST_P(IdleSocketsTest, AConnectionIsOneInterest) {
    if (GetParam() != EngineKind::epoll) {
        GTEST_SKIP() << "there is no epoll_ctl() to count";
    }
    const std::uint64_t before = loop().statistics().interest_count;
    std::vector<std::array<Stream, 2>> pairs;
    std::deque<Echo> echoes;
    for (int i = 0; i < 10; ++i) {
        pairs.push_back(make_pair());
    }
    for (auto& [client, server] : pairs) {
        echoes.emplace_back(server);
        exchange(client, 10);
    }
    EXPECT_EQ(loop().statistics().interest_count - before, 20U);
}

TEST_P(IdleSocketsTest, TwoThousandIdleConnectionsCostNothing) {
    constexpr std::size_t kIdle = 2000;
    if (GetParam() == EngineKind::select || GetParam() == EngineKind::poll) {
        GTEST_SKIP() << "the kernel is shown every socket, every time";
    }
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit before = limit;
    limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, 2 * kIdle + 200);
    if (limit.rlim_cur > limit.rlim_max || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        GTEST_SKIP() << "the hard limit of open files is too low (ulimit -Hn)";
    }
    {
        auto [client, server] = connect_unix_pair();
        const Echo echo(server);
        exchange(client, 10);
        const LoopStatistics alone = exchange(client, kMessages);
        std::vector<std::array<Stream, 2>> idle;
        std::deque<Watched<ReceiveLentOperation>> receives;
        for (std::size_t i = 0; i < kIdle; ++i) {
            idle.push_back(make_pair());
            for (Stream& stream : idle.back()) {
                stream.receive(receives.emplace_back());
            }
        }
        run_ready();
        ASSERT_EQ(loop().statistics().pending_count, 2 * kIdle + 1);
        exchange(client, 10);
        const LoopStatistics among = exchange(client, kMessages);
        EXPECT_EQ(among.wait_count, alone.wait_count);
        EXPECT_EQ(among.interest_count, alone.interest_count);
        EXPECT_EQ(among.iteration_count, alone.iteration_count);
        EXPECT_EQ(among.completion_count, alone.completion_count);
        EXPECT_EQ(among.submission_count, alone.submission_count);
    }
    ::setrlimit(RLIMIT_NOFILE, &before);
}

BERTH_OVER_EVERY_ENGINE_OF(IdleSocketsTest);

}  // namespace
}  // namespace berth::test
