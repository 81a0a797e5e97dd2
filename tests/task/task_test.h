// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of tasks share: a loop of each engine that this kernel has, and tasks that tell
// what became of them.

#include <berth/event.h>
#include <berth/loop.h>
#include <berth/scope.h>
#include <berth/task.h>

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace berth::test {

using namespace std::chrono_literals;

class TaskLoopTest : public testing::TestWithParam<EngineKind> {
protected:
    void SetUp() override {
        Result<Loop> made = Loop::create({.engine = GetParam()});
        if (!made && made.error().code() == Errc::unsupported) {
            GTEST_SKIP() << made.error().message();
        }
        ASSERT_TRUE(made) << made.error().message();
        loop_.emplace(std::move(*made));
    }

    Loop& loop() { return *loop_; }
    /// Runs what is ready and what that causes, and waits for nothing.
    void run_ready() {
        while (*loop().run_once()) {
        }
    }
    void end_loop() { loop_.reset(); }

private:
    std::optional<Loop> loop_;
};

#define BERTH_TASKS_OVER_EVERY_ENGINE(fixture)                                         \
    INSTANTIATE_TEST_SUITE_P(Over, fixture,                                            \
                             testing::Values(EngineKind::select, EngineKind::poll,     \
                                             EngineKind::epoll, EngineKind::io_uring), \
                             [](const testing::TestParamInfo<EngineKind>& parameter) { \
                                 return std::string(to_string(parameter.param));       \
                             })

/// Counts its objects: how many there are, and how many there were.
class Counted {
public:
    struct Figures {
        int made = 0;
        int destroyed = 0;
        int alive() const { return made - destroyed; }
    };

    explicit Counted(Figures& figures) noexcept : figures_(&figures) { ++figures_->made; }
    Counted(Counted&& other) noexcept
        : figures_(other.figures_), is_full_(std::exchange(other.is_full_, false)) {
        ++figures_->made;
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() { ++figures_->destroyed; }

    /// False when it was moved from.
    bool is_full() const noexcept { return is_full_; }

private:
    Figures* figures_;
    bool is_full_ = true;
};

/// The code of a failed result; empty after success.
template <class T>
std::optional<Errc> error_of(const Result<T>& result) {
    return result ? std::nullopt : std::optional(result.error().code());
}

}  // namespace berth::test
