// SPDX-License-Identifier: Apache-2.0
#include "bench/history/allocators.h"
#include "bench/history/bind_loop.h"
#include "bench/history/models.h"
#include "bench/history/port_walk.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

namespace berth::bench {
namespace {

// A multiple of 128: every chain has the same number of ports, so that the search for the shortest
// chain, which looks into no other, is complete too.
constexpr PortRange kRange = {40000, 42047};

std::unique_ptr<PortModel> model_of(std::string_view allocator, PortRange range = kRange) {
    auto model = make_port_model(allocator, range);
    EXPECT_TRUE(model) << (model ? "" : model.error().message());
    return model ? std::move(*model) : nullptr;
}

bool is_uninstrumented(std::string_view allocator) {
#if defined(__SANITIZE_THREAD__)
    return allocator == "rcu-recheck";
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    return allocator == "rcu-recheck";
#endif
#endif
    static_cast<void>(allocator);
    return false;
}

class EveryHistoryModel : public testing::TestWithParam<std::string_view> {
protected:
    std::uint16_t bind_one(PortModel& model) {
        ModelSocket* socket = model.open();
        if (!model.bind(*socket, search)) {
            model.close(socket);
            return 0;
        }
        sockets.push_back(socket);
        return socket->port;
    }
    void close_all(PortModel& model) {
        for (ModelSocket* socket : sockets) {
            model.close(socket);
        }
        sockets.clear();
    }

    std::atomic<bool> is_stopped{false};
    Search search{.random = internal::thread_random(), .is_stopped = is_stopped};
    std::vector<ModelSocket*> sockets;
};

TEST_P(EveryHistoryModel, BindsEveryPortOnceAndThenFails) {
    const auto model = model_of(GetParam());
    const ModelThread thread(*model);
    std::set<std::uint16_t> ports;
    for (std::uint32_t count = 0; count < kRange.size(); ++count) {
        const std::uint16_t port = bind_one(*model);
        ASSERT_TRUE(kRange.contains(port)) << count;
        EXPECT_TRUE(ports.insert(port).second) << port;
    }
    EXPECT_EQ(bind_one(*model), 0);
    close_all(*model);
}

// A thread that a model leaves behind would take signals that others wait for.
TEST_P(EveryHistoryModel, ItsThreadsTakeNoSignals) {
    if (is_uninstrumented(GetParam())) {
        GTEST_SKIP() << "liburcu is not instrumented for the ThreadSanitizer";
    }
    const auto model = model_of(GetParam());
    const ModelThread thread(*model);
    bind_one(*model);
    close_all(*model);
    const std::string self = std::to_string(::gettid());
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream status(task.path() / "status");
        for (std::string line; std::getline(status, line);) {
            if (line.starts_with("SigBlk:") && task.path().filename() != self) {
                EXPECT_NE(std::stoull(line.substr(7), nullptr, 16) & 1U << (SIGUSR1 - 1), 0U);
            }
        }
    }
}

TEST_P(EveryHistoryModel, FindsTheLastFreePort) {
    const auto model = model_of(GetParam());
    const ModelThread thread(*model);
    sockets = model->fill();
    ASSERT_EQ(sockets.size(), kRange.size());
    for (unsigned round = 0; round < 20; ++round) {
        const auto place = search.random.below(static_cast<std::uint32_t>(sockets.size()));
        ModelSocket* socket = sockets[place];
        const std::uint16_t port = socket->port;
        sockets.erase(sockets.begin() + place);
        model->close(socket);
        EXPECT_EQ(bind_one(*model), port);
        EXPECT_EQ(bind_one(*model), 0);
    }
    close_all(*model);
}

TEST_P(EveryHistoryModel, AStoppedSearchFailsOrBinds) {
    const auto model = model_of(GetParam());
    const ModelThread thread(*model);
    is_stopped = true;
    const std::uint16_t port = bind_one(*model);
    EXPECT_TRUE(port == 0 || kRange.contains(port));
    close_all(*model);
}

TEST_P(EveryHistoryModel, NeverGivesAPortToTwoThreads) {
    if (is_uninstrumented(GetParam())) {
        GTEST_SKIP() << "liburcu is not instrumented for the ThreadSanitizer";
    }
    const auto model = model_of(GetParam());
    std::vector<std::atomic<bool>> is_taken(kRange.size());
    std::atomic<unsigned> doubles{0};
    const auto work = [&] {
        const ModelThread thread(*model);
        Search own{.random = internal::thread_random(), .is_stopped = is_stopped};
        std::vector<ModelSocket*> mine;
        for (unsigned turn = 0; turn < 1'500; ++turn) {
            ModelSocket* socket = model->open();
            if (model->bind(*socket, own)) {
                doubles += is_taken[socket->port - kRange.first].exchange(true) ? 1 : 0;
                mine.push_back(socket);
            } else {
                model->close(socket);
            }
            if (mine.size() > 500) {
                std::swap(mine[turn % mine.size()], mine.back());
                is_taken[mine.back()->port - kRange.first] = false;
                model->close(mine.back());
                mine.pop_back();
            }
        }
        for (ModelSocket* socket : mine) {
            is_taken[socket->port - kRange.first] = false;
            model->close(socket);
        }
    };
    {
        std::vector<std::jthread> threads;
        for (unsigned thread = 0; thread < 4; ++thread) {
            threads.emplace_back(work);
        }
    }
    EXPECT_EQ(doubles, 0U);
}

TEST_P(EveryHistoryModel, RunsTheLoopFromAFullRange) {
    if (is_uninstrumented(GetParam())) {
        GTEST_SKIP() << "liburcu is not instrumented for the ThreadSanitizer";
    }
    const auto model = model_of(GetParam());
    const ModelThread thread(*model);
    LoopResult result;
    const LoopOptions options{
        .threads = 4, .warm_up = {}, .duration = std::chrono::milliseconds(40)};
    run_bind_loop(*model, model->fill(), options, result);
    EXPECT_EQ(result.succeeded + result.failed + result.unfinished, result.times.count());
    EXPECT_GE(result.seconds, 0.04);
    // Everything was closed: the model is empty again.
    sockets = model->fill();
    EXPECT_EQ(sockets.size(), kRange.size());
    close_all(*model);
}

std::string test_name(const testing::TestParamInfo<std::string_view>& parameter) {
    std::string name(parameter.param);
    std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(History, EveryHistoryModel,
                         testing::ValuesIn(history_allocators().begin(),
                                           history_allocators().end()),
                         test_name);

TEST(OddEven, TakesTheOddPortsFirst) {
    const auto model = model_of("linux-4.6-odd-even");
    const std::atomic<bool> is_stopped{false};
    Search search{.random = internal::thread_random(), .is_stopped = is_stopped};
    std::vector<ModelSocket*> sockets;
    for (std::uint32_t count = 0; count < kRange.size(); ++count) {
        sockets.push_back(model->open());
        ASSERT_TRUE(model->bind(*sockets.back(), search));
        const bool is_odd = (sockets.back()->port - kRange.first) % 2 == 1;
        EXPECT_EQ(is_odd, count < kRange.size() / 2) << count;
    }
    std::ranges::for_each(sockets, [&model](ModelSocket* socket) { model->close(socket); });
}

TEST(ShortestChain, GivesPortsInAnOrderThatCanBePredicted) {
    const auto model = model_of("linux-2.6.24");
    const std::atomic<bool> is_stopped{false};
    Search search{.random = internal::thread_random(), .is_stopped = is_stopped};
    std::vector<ModelSocket*> sockets;
    for (std::uint16_t count = 0; count < 100; ++count) {
        sockets.push_back(model->open());
        ASSERT_TRUE(model->bind(*sockets.back(), search));
        EXPECT_EQ(sockets.back()->port, kRange.first + count);
    }
    std::ranges::for_each(sockets, [&model](ModelSocket* socket) { model->close(socket); });
}

TEST(PortWalk, VisitsEveryPortOnce) {
    for (const PortRange range : {PortRange{40000, 40999}, {1, 1}, {65'000, 65'535}}) {
        std::set<std::uint16_t> visited;
        PortWalk walk(range, internal::thread_random());
        do {
            EXPECT_TRUE(visited.insert(walk.port()).second);
        } while (walk.advance());
        EXPECT_EQ(visited.size(), range.size());
    }
}

TEST(HistoryAllocators, AnUnknownNameIsRefused) {
    const auto model = make_port_model("linux-1.0", kRange);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace berth::bench
