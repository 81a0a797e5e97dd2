// SPDX-License-Identifier: Apache-2.0
#include "src/engine/choose_engine.h"

#include "src/engine/io_uring/probe.h"
#include "src/engine/simulation/simulation.h"
#include "tests/support/forbidden_call.h"

#include <berth/loop.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

namespace berth {
namespace {

using test::forbid;
using testing::AllOf;
using testing::HasSubstr;

constexpr EngineKind kKinds[] = {EngineKind::select, EngineKind::poll, EngineKind::epoll,
                                 EngineKind::io_uring};

bool has_io_uring() { return Loop::create({.engine = EngineKind::io_uring}).has_value(); }

/// Each test sets BERTH_ENGINE; afterwards it is as it was.
class ChooseEngine : public testing::Test {
protected:
    ChooseEngine() {
        if (const char* value = std::getenv("BERTH_ENGINE")) {
            before_ = value;
        }
        ::unsetenv("BERTH_ENGINE");
    }
    ~ChooseEngine() override {
        before_ ? set(*before_) : static_cast<void>(::unsetenv("BERTH_ENGINE"));
    }
    static void set(std::string_view value) {
        ::setenv("BERTH_ENGINE", std::string(value).c_str(), 1);
    }

private:
    std::optional<std::string> before_;
};

TEST_F(ChooseEngine, TheEnvironmentNamesOne) {
    for (const EngineKind kind : kKinds) {
        if (kind == EngineKind::io_uring && !has_io_uring()) {
            continue;
        }
        set(to_string(kind));
        const Result<Loop> loop = Loop::create();
        ASSERT_TRUE(loop.has_value()) << loop.error().message();
        EXPECT_EQ(loop->engine(), kind);
        EXPECT_EQ(loop->engine_note(), "") << "it was asked for by name";
    }
}

TEST_F(ChooseEngine, TheEnvironmentNamesTheSimulatedOneDuringASimulation) {
    set("simulated");
    const Result<Loop> none = Loop::create();
    ASSERT_FALSE(none.has_value());
    EXPECT_EQ(none.error().code(), Errc::unsupported);
    const internal::Simulation simulation;
    const Result<Loop> loop = Loop::create();
    ASSERT_TRUE(loop.has_value()) << loop.error().message();
    EXPECT_EQ(loop->engine(), EngineKind::simulated);
}

TEST_F(ChooseEngine, AWrongNameListsTheRightOnes) {
    for (const char* name : {"kqueue", "EPOLL", "epoll ", "io-uring"}) {
        set(name);
        const Result<Loop> loop = Loop::create();
        ASSERT_FALSE(loop.has_value()) << name;
        EXPECT_EQ(loop.error().code(), Errc::invalid_argument);
        EXPECT_THAT(loop.error().message(),
                    AllOf(HasSubstr(name), HasSubstr("BERTH_ENGINE"), HasSubstr("select"),
                          HasSubstr("poll"), HasSubstr("epoll"), HasSubstr("io_uring")));
    }
}

TEST_F(ChooseEngine, TheOptionsHaveTheLastWord) {
    for (const char* name : {"epoll", "kqueue"}) {
        set(name);
        const Result<Loop> loop = Loop::create({.engine = EngineKind::poll});
        ASSERT_TRUE(loop.has_value()) << loop.error().message();
        EXPECT_EQ(loop->engine(), EngineKind::poll);
        EXPECT_EQ(loop->engine_note(), "");
    }
}

TEST_F(ChooseEngine, WithoutANameItIsTheBest) {
    for (const char* name : {"", static_cast<const char*>(nullptr)}) {
        name != nullptr ? set(name) : static_cast<void>(::unsetenv("BERTH_ENGINE"));
        const Result<Loop> loop = Loop::create();
        ASSERT_TRUE(loop.has_value()) << loop.error().message();
        EXPECT_EQ(loop->engine(), has_io_uring() ? EngineKind::io_uring : EngineKind::epoll);
        EXPECT_EQ(loop->engine_note().empty(), has_io_uring());
    }
}

TEST_F(ChooseEngine, EachHasItsName) {
    for (const EngineKind kind : kKinds) {
        EXPECT_EQ(parse_engine_kind(to_string(kind)).value(), kind);
    }
    EXPECT_EQ(parse_engine_kind("").error().code(), Errc::invalid_argument);
    EXPECT_THAT(parse_engine_kind("kqueue").error().message(),
                AllOf(HasSubstr("kqueue"), HasSubstr("select, poll, epoll, io_uring")));
}

/// Runs `body` in a child where nothing is known of io_uring and epoll.
[[nodiscard]] bool holds_in_child(const std::function<bool()>& body) {
    return test::holds_in_child([&] {
        internal::forget_io_uring_probe();
        internal::forget_best_engine();
        return body();
    });
}

/// Says what is missing, for whoever reads the log of a child that failed.
bool is_in(std::string_view part, std::string_view text) {
    const bool is_there = text.find(part) != std::string_view::npos;
    if (!is_there) {
        std::cerr << "'" << part << "' is not in '" << text << "'\n";
    }
    return is_there;
}

TEST_F(ChooseEngine, WithoutIoUringItIsEpollAndSaysWhy) {
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_setup, EPERM);
        for (int i = 0; i < 2; ++i) {  // the second time it is remembered
            const Result<Loop> loop = Loop::create();
            if (!loop || loop->engine() != EngineKind::epoll ||
                !is_in("io_uring", loop->engine_note()) || !is_in("seccomp", loop->engine_note())) {
                return false;
            }
        }
        return true;
    }));
}

TEST_F(ChooseEngine, WithoutEpollTooItIsPollAndSaysWhyForBoth) {
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_setup, ENOSYS);
        forbid(__NR_epoll_create1, ENOSYS);
        const Result<Loop> loop = Loop::create();
        return loop && loop->engine() == EngineKind::poll &&
               is_in("io_uring", loop->engine_note()) && is_in("; ", loop->engine_note()) &&
               is_in("epoll", loop->engine_note());
    }));
}

TEST_F(ChooseEngine, OneThatIsAskedForByNameAndMissingIsAnError) {
    const auto is_refused = [](const Result<Loop>& loop) {
        return !loop && loop.error().code() == Errc::unsupported &&
               is_in("io_uring", loop.error().message()) &&
               is_in("seccomp", loop.error().message()) &&
               is_in("use epoll", loop.error().message());
    };
    EXPECT_TRUE(holds_in_child([&] {
        forbid(__NR_io_uring_setup, EPERM);
        set("io_uring");
        const bool is_refused_by_environment = is_refused(Loop::create());
        set("epoll");
        return is_refused_by_environment &&
               is_refused(Loop::create({.engine = EngineKind::io_uring})) && Loop::create();
    }));
}

}  // namespace
}  // namespace berth
