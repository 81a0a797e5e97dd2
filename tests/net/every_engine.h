// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of what a loop offers besides sockets share: each runs over every engine that this
// kernel has.

#include <berth/loop.h>

#include <gtest/gtest.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace berth {

/// A coroutine that runs at once and belongs to nobody; its frame goes when it ends.
struct Detached {
    struct promise_type {
        Detached get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};

/// A loop over the engine that is the test's parameter.
class EveryEngineTest : public testing::TestWithParam<EngineKind> {
protected:
    void SetUp() override { make_loop({}); }

    void make_loop(LoopOptions options) {
        options.engine = GetParam();
        Result<Loop> made = Loop::create(options);
        if (!made && made.error().code() == Errc::unsupported) {
            GTEST_SKIP() << made.error().message();
        }
        ASSERT_TRUE(made) << made.error().message();
        loop_.emplace(std::move(*made));
    }

    Loop& loop() { return *loop_; }

    /// Runs the loop until `condition()` is true. False after 20 s.
    template <class Condition>
    bool run_until(Condition condition) {
        const TimePoint end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!condition()) {
            if (std::chrono::steady_clock::now() >= end || !loop().run_once(at(end))) {
                return false;
            }
        }
        return true;
    }

    std::optional<Loop> loop_;
};

inline std::string engine_name(const testing::TestParamInfo<EngineKind>& info) {
    return std::string(to_string(info.param));
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

#define BERTH_TEST_EVERY_ENGINE(Fixture)                                               \
    INSTANTIATE_TEST_SUITE_P(, Fixture,                                                \
                             testing::Values(EngineKind::select, EngineKind::poll,     \
                                             EngineKind::epoll, EngineKind::io_uring), \
                             engine_name)

}  // namespace berth
