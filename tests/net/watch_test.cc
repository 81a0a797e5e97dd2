// SPDX-License-Identifier: Apache-2.0
#include <berth/watch.h>

#include <berth/file.h>

#include "tests/net/every_engine.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>

namespace berth {
namespace {

using namespace std::chrono_literals;

class WatchTest : public EveryEngineTest {
protected:
    void SetUp() override {
        EveryEngineTest::SetUp();
        Result<Pipe> pipe = make_pipe();
        ASSERT_TRUE(pipe);
        pipe_ = std::move(*pipe);
        std::array<int, 2> pair = {-1, -1};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
        near_.reset(pair[0]);
        far_.reset(pair[1]);
    }

    Watch watch(const Descriptor& descriptor) {
        Result<Watch> watch = Watch::open(loop(), descriptor.get());
        EXPECT_TRUE(watch) << watch.error().message();
        return std::move(*watch);
    }

    Pipe pipe_;
    Descriptor near_;
    Descriptor far_;
};

TEST_P(WatchTest, TellsWhenThereIsSomethingToRead) {
    Watch reader = watch(pipe_.read_end);
    std::optional<Result<short>> events;
    const auto work = [&]() -> Detached { events = co_await reader.readable(); };
    work();
    EXPECT_TRUE(loop().run_once());
    EXPECT_FALSE(events.has_value());
    EXPECT_EQ(::write(pipe_.write_end.get(), "x", 1), 1);
    ASSERT_TRUE(run_until([&] { return events.has_value(); }));
    EXPECT_EQ(events->value_or(0), POLLIN);
}

TEST_P(WatchTest, TellsAgainWhileNothingIsRead) {
    Watch reader = watch(pipe_.read_end);
    EXPECT_EQ(::write(pipe_.write_end.get(), "x", 1), 1);
    int told_count = 0;
    const auto work = [&]() -> Detached {
        for (int i = 0; i < 100; ++i) {
            told_count += (co_await reader.readable()).value_or(0) == POLLIN ? 1 : 0;
        }
    };
    work();
    EXPECT_TRUE(run_until([&] { return told_count == 100; }));
}

TEST_P(WatchTest, CallsBackWithAnOperationOfTheCallers) {
    Watch writer = watch(pipe_.write_end);
    std::size_t events = 0;
    auto poll = handler<PollOperation>([&](PollOperation& done) { events = done.count(); });
    EXPECT_EQ(writer.poll(poll, POLLOUT), Start::pending);
    ASSERT_TRUE(run_until([&] { return events != 0; }));
    EXPECT_EQ(events, std::size_t{POLLOUT});
}

TEST_P(WatchTest, WaitsForRoomInAFullPipe) {
    const int flags = ::fcntl(pipe_.write_end.get(), F_GETFL);
    ASSERT_EQ(::fcntl(pipe_.write_end.get(), F_SETFL, flags | O_NONBLOCK), 0);
    std::array<char, 4096> page{};
    while (::write(pipe_.write_end.get(), page.data(), page.size()) > 0) {
    }
    Watch writer = watch(pipe_.write_end);
    std::optional<Result<short>> events;
    const auto work = [&]() -> Detached { events = co_await writer.writable(); };
    work();
    EXPECT_TRUE(loop().run_once());
    EXPECT_FALSE(events.has_value());
    EXPECT_GT(::read(pipe_.read_end.get(), page.data(), page.size()), 0);
    ASSERT_TRUE(run_until([&] { return events.has_value(); }));
    EXPECT_EQ(events->value_or(0) & POLLOUT, POLLOUT);
}

TEST_P(WatchTest, WaitsForInputAndOutputAtTheSameTime) {
    Watch both = watch(near_);
    std::optional<Result<short>> input;
    std::optional<Result<short>> output;
    const auto read = [&]() -> Detached { input = co_await both.readable(); };
    const auto write = [&]() -> Detached { output = co_await both.writable(); };
    read();
    write();
    ASSERT_TRUE(run_until([&] { return output.has_value(); }));
    EXPECT_FALSE(input.has_value());
    EXPECT_EQ(::send(far_.get(), "x", 1, 0), 1);
    ASSERT_TRUE(run_until([&] { return input.has_value(); }));
    EXPECT_EQ(input->value_or(0), POLLIN);
}

TEST_P(WatchTest, TellsWhichOfSeveralEventsIsTrue) {
    Watch watched = watch(near_);
    EXPECT_EQ(::send(far_.get(), "x", 1, 0), 1);
    std::optional<Result<short>> events;
    const auto work = [&]() -> Detached { events = co_await watched.events(POLLIN | POLLOUT); };
    work();
    ASSERT_TRUE(run_until([&] { return events.has_value(); }));
    EXPECT_EQ(events->value_or(0), POLLIN | POLLOUT);
}

TEST_P(WatchTest, TellsOfAHangUpThatNobodyAskedFor) {
    Watch reader = watch(pipe_.read_end);
    std::optional<Result<short>> events;
    const auto work = [&]() -> Detached { events = co_await reader.readable(); };
    work();
    EXPECT_TRUE(loop().run_once());
    pipe_.write_end.reset();
    ASSERT_TRUE(run_until([&] { return events.has_value(); }));
    EXPECT_EQ(events->value_or(0), POLLHUP);
}

TEST_P(WatchTest, EndsAtItsDeadline) {
    Watch reader = watch(pipe_.read_end);
    std::optional<Result<short>> events;
    const auto work = [&]() -> Detached { events = co_await reader.readable(within(1ms)); };
    work();
    ASSERT_TRUE(run_until([&] { return events.has_value(); }));
    ASSERT_FALSE(*events);
    EXPECT_EQ(events->error().code(), Errc::timed_out);
}

TEST_P(WatchTest, ClosingCancelsAndLeavesTheDescriptorOpen) {
    Watch reader = watch(pipe_.read_end);
    std::optional<Result<short>> events;
    const auto work = [&]() -> Detached { events = co_await reader.readable(); };
    work();
    EXPECT_TRUE(loop().run_once());
    reader.close();
    EXPECT_FALSE(reader.is_open());
    ASSERT_TRUE(run_until([&] { return events.has_value(); }));
    ASSERT_FALSE(*events);
    EXPECT_EQ(events->error().code(), Errc::cancelled);
    EXPECT_GE(::fcntl(pipe_.read_end.get(), F_GETFD), 0);
}

TEST_P(WatchTest, ADescriptorCanBeWatchedAgain) {
    for (int i = 0; i < 3; ++i) {
        Watch reader = watch(pipe_.read_end);
        std::optional<Result<short>> events;
        const auto work = [&]() -> Detached { events = co_await reader.readable(); };
        work();
        EXPECT_TRUE(loop().run_once());
        EXPECT_EQ(::write(pipe_.write_end.get(), "x", 1), 1);
        ASSERT_TRUE(run_until([&] { return events.has_value(); }));
        EXPECT_EQ(events->value_or(0), POLLIN);
        char byte = 0;
        EXPECT_EQ(::read(pipe_.read_end.get(), &byte, 1), 1);
    }
}

TEST_P(WatchTest, WorksForWhatIsNoSocketAndNoPipe) {
    const Descriptor counter(::eventfd(0, EFD_CLOEXEC));
    Watch watched = watch(counter);
    std::optional<Result<short>> events;
    const auto work = [&]() -> Detached { events = co_await watched.readable(); };
    work();
    EXPECT_TRUE(loop().run_once());
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(counter.get(), &one, sizeof one), ssize_t{sizeof one});
    ASSERT_TRUE(run_until([&] { return events.has_value(); }));
    EXPECT_EQ(events->value_or(0), POLLIN);
}

TEST_P(WatchTest, NoDescriptorIsAnError) {
    const Result<Watch> watch = Watch::open(loop(), -1);
    ASSERT_FALSE(watch);
    EXPECT_EQ(watch.error().code(), Errc::invalid_argument);
    Watch closed;
    std::optional<Result<short>> events;
    const auto work = [&]() -> Detached { events = co_await closed.readable(); };
    work();
    ASSERT_TRUE(events.has_value());
    EXPECT_FALSE(*events);
}

BERTH_TEST_EVERY_ENGINE(WatchTest);

}  // namespace
}  // namespace berth
