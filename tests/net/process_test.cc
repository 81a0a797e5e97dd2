// SPDX-License-Identifier: Apache-2.0
#include <berth/process.h>

#include <berth/file.h>
#include <berth/signals.h>

#include "tests/net/every_engine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace berth {
namespace {

using namespace std::chrono_literals;

class ProcessTest : public EveryEngineTest {
protected:
    ChildProcess spawn(const std::vector<std::string>& arguments,
                       const SpawnOptions& options = {}) {
        Result<ChildProcess> child = ChildProcess::spawn(loop(), arguments, options);
        EXPECT_TRUE(child) << child.error().message();
        return child ? std::move(*child) : ChildProcess();
    }
    ChildProcess shell(const std::string& script, const SpawnOptions& options = {}) {
        return spawn({"sh", "-c", script}, options);
    }

    ExitStatus status_of(ChildProcess& child) {
        std::optional<Result<ExitStatus>> status;
        const auto work = [&]() -> Detached { status = co_await child.wait(); };
        work();
        EXPECT_TRUE(run_until([&] { return status.has_value(); }));
        EXPECT_TRUE(status->has_value()) << status->error().message();
        return status->value_or(ExitStatus{.code = -1});
    }

    /// What a program writes to its standard output, and, when `options` say so, its error output.
    std::string output_of(const std::string& script, SpawnOptions options = {},
                          bool with_errors = false) {
        Result<Pipe> pipe = make_pipe();
        EXPECT_TRUE(pipe);
        options.output = pipe->write_end.get();
        options.error = with_errors ? options.output : options.error;
        ChildProcess child = shell(script, options);
        pipe->write_end.reset();
        Result<File> reader = File::adopt(loop(), std::move(pipe->read_end));
        EXPECT_TRUE(reader);
        std::string output;
        bool is_at_end = false;
        const auto work = [&]() -> Detached {
            std::array<std::byte, 1024> room;
            while (const std::size_t count = (co_await reader->read(room)).value_or(0)) {
                output += text_of(std::span(room).first(count));
            }
            is_at_end = true;
        };
        work();
        EXPECT_TRUE(run_until([&] { return is_at_end; }));
        EXPECT_TRUE(status_of(child).is_success()) << output;
        return output;
    }
};

/// There is no child of this process, not even a zombie.
bool has_no_child() { return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

TEST_P(ProcessTest, TellsHowAChildHasEnded) {
    ChildProcess good = spawn({"true"});
    ChildProcess bad = shell("exit 42");
    ChildProcess killed = shell("kill -TERM $$");
    EXPECT_EQ(status_of(good), ExitStatus());
    EXPECT_EQ(status_of(bad), (ExitStatus{.code = 42}));
    EXPECT_EQ(status_of(killed), (ExitStatus{.signal = SIGTERM}));
    EXPECT_TRUE(has_no_child());
}

TEST_P(ProcessTest, KeepsTheStatus) {
    ChildProcess child = shell("exit 3");
    EXPECT_EQ(status_of(child).code, 3);
    EXPECT_EQ(status_of(child).code, 3);
    ChildProcess moved = std::move(child);
    EXPECT_EQ(moved.exit_status()->code, 3);
    EXPECT_FALSE(child.exit_status());
}

TEST_P(ProcessTest, CallsBackWithAnOperationOfTheCallers) {
    ChildProcess child = shell("exit 7");
    std::optional<int> code;
    auto wait = handler<PollOperation>([&](PollOperation& done) {
        ASSERT_FALSE(done.has_failed()) << done.error().message();
        code = child.exit_status()->code;
    });
    EXPECT_EQ(child.wait(wait), Start::pending);
    ASSERT_TRUE(run_until([&] { return code.has_value(); }));
    EXPECT_EQ(*code, 7);
}

TEST_P(ProcessTest, SignalsTheChild) {
    ChildProcess child = spawn({"sleep", "1000"});
    EXPECT_FALSE(child.exit_status()) << "it runs";
    EXPECT_EQ(child.exit_status().error().system_errno(), EAGAIN);
    EXPECT_TRUE(child.kill(SIGTERM));
    EXPECT_EQ(status_of(child), (ExitStatus{.signal = SIGTERM}));
    const Result<void> again = child.kill(SIGTERM);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code(), Errc::closed);
}

TEST_P(ProcessTest, AWaitEndsAtItsDeadline) {
    ChildProcess child = spawn({"sleep", "1000"});
    std::optional<Result<ExitStatus>> status;
    const auto work = [&]() -> Detached { status = co_await child.wait(within(1ms)); };
    work();
    ASSERT_TRUE(run_until([&] { return status.has_value(); }));
    ASSERT_FALSE(*status);
    EXPECT_EQ(status->error().code(), Errc::timed_out);
    EXPECT_TRUE(child.kill(0)) << "the child does not notice";
}

TEST_P(ProcessTest, GoingKillsTheChildAndLeavesNoZombie) {
    {
        const ChildProcess running = spawn({"sleep", "1000"});
        const ChildProcess ended = spawn({"true"});
    }
    EXPECT_TRUE(has_no_child());
    std::optional<Result<ExitStatus>> status;
    ChildProcess child = spawn({"sleep", "1000"});
    const auto work = [&]() -> Detached { status = co_await child.wait(); };
    work();
    EXPECT_TRUE(loop().run_once(within(0ns)));
    child.close();
    EXPECT_FALSE(child.is_open());
    ASSERT_TRUE(run_until([&] { return status.has_value(); }));
    EXPECT_FALSE(status->has_value());
    EXPECT_TRUE(has_no_child());
}

TEST_P(ProcessTest, AReleasedChildLivesOn) {
    ChildProcess child = spawn({"sleep", "1000"});
    const pid_t pid = child.release();
    EXPECT_FALSE(child.is_open());
    EXPECT_EQ(::kill(pid, 0), 0);
    Result<ChildProcess> again = ChildProcess::adopt(loop(), pid);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(again->pid(), pid);
    EXPECT_TRUE(again->kill(SIGKILL));
    EXPECT_EQ(status_of(*again).signal, SIGKILL);
}

TEST_P(ProcessTest, WhatIsNoChildCannotBeWaitedFor) {
    EXPECT_FALSE(ChildProcess::adopt(loop(), ::getppid()));
    EXPECT_FALSE(ChildProcess::adopt(loop(), -5));
    ChildProcess child = spawn({"true"});
    ASSERT_EQ(::waitpid(child.pid(), nullptr, 0), child.pid());
    EXPECT_FALSE(ChildProcess::adopt(loop(), child.pid()));
}

TEST_P(ProcessTest, AStatusThatAnotherHasTakenIsAnError) {
    ChildProcess child = spawn({"true"});
    ASSERT_EQ(::waitpid(child.pid(), nullptr, 0), child.pid());
    std::optional<Result<ExitStatus>> status;
    const auto work = [&]() -> Detached { status = co_await child.wait(); };
    work();
    ASSERT_TRUE(run_until([&] { return status.has_value(); }));
    ASSERT_FALSE(*status);
    EXPECT_EQ(status->error().system_errno(), ECHILD);
}

TEST_P(ProcessTest, AProgramThatIsNotThereSaysSo) {
    const Result<ChildProcess> child = ChildProcess::spawn(loop(), {"/nonexistent/program"});
    ASSERT_FALSE(child);
    EXPECT_EQ(child.error().system_errno(), ENOENT);
    EXPECT_THAT(child.error().message(), testing::HasSubstr("/nonexistent/program"));
    EXPECT_EQ(ChildProcess::spawn(loop(), {}).error().code(), Errc::invalid_argument);
    EXPECT_FALSE(ChildProcess::spawn(loop(), {"true"}, {.searches_path = false}));
    EXPECT_FALSE(ChildProcess::spawn(loop(), {"true"}, {.directory = "/nonexistent"}));
    EXPECT_TRUE(has_no_child());
}

TEST_P(ProcessTest, ConnectsTheStandardDescriptors) {
    Result<Pipe> pipe = make_pipe();
    ASSERT_TRUE(pipe);
    ASSERT_EQ(::write(pipe->write_end.get(), "question", 8), 8);
    pipe->write_end.reset();
    SpawnOptions options;
    options.input = pipe->read_end.get();
    EXPECT_EQ(output_of("cat; echo '!' >&2", options, true), "question!\n");
}

TEST_P(ProcessTest, TheNullDeviceIsEmptyAndTakesEverything) {
    SpawnOptions options;
    options.input = SpawnOptions::kNullDevice;
    options.error = SpawnOptions::kNullDevice;
    EXPECT_EQ(output_of("cat; echo lost >&2; echo kept", options), "kept\n");
}

TEST_P(ProcessTest, StandardDescriptorsCanBeExchanged) {
    Result<Pipe> pipe = make_pipe();
    ASSERT_TRUE(pipe);
    const Descriptor kept(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    ASSERT_EQ(::dup2(pipe->write_end.get(), STDERR_FILENO), STDERR_FILENO);
    SpawnOptions options;
    options.output = STDERR_FILENO;
    options.error = STDOUT_FILENO;
    ChildProcess child = shell("echo out", options);
    ASSERT_EQ(::dup2(kept.get(), STDERR_FILENO), STDERR_FILENO);
    EXPECT_TRUE(status_of(child).is_success());
    std::array<char, 8> text{};
    EXPECT_EQ(::read(pipe->read_end.get(), text.data(), text.size()), 4);
    EXPECT_STREQ(text.data(), "out\n");
}

TEST_P(ProcessTest, TheChildInheritsNothingElse) {
    const Descriptor stray(::open("/dev/null", O_RDONLY));
    ASSERT_GE(stray.get(), 3);
    // The shell's own script and the directory that is being listed are left.
    const std::string number = std::to_string(stray.get());
    EXPECT_EQ(output_of("test -e /proc/self/fd/" + number + " && echo open || echo closed"),
              "closed\n");
}

TEST_P(ProcessTest, TheChildBeginsWithNoSignalBlocked) {
    Result<SignalWatch> watch = SignalWatch::open(loop(), {SIGTERM});
    ASSERT_TRUE(watch);
    Result<Pipe> pipe = make_pipe();
    ASSERT_TRUE(pipe);
    Result<File> file = File::adopt(loop(), std::move(pipe->read_end));
    EXPECT_EQ(output_of("grep SigBlk /proc/self/status"), "SigBlk:\t0000000000000000\n");
}

TEST_P(ProcessTest, TheChildDiesOfABrokenPipeThoughThisProcessDoesNot) {
    const auto before = std::signal(SIGPIPE, SIG_IGN);
    ChildProcess child = shell("kill -PIPE $$");
    std::signal(SIGPIPE, before);
    EXPECT_EQ(status_of(child), (ExitStatus{.signal = SIGPIPE}));
}

TEST_P(ProcessTest, DirectoryAndEnvironmentAreTheChildsOwn) {
    SpawnOptions options;
    options.directory = "/";
    options.environment = std::vector<std::string>{"BERTH_TEST=yes"};
    EXPECT_EQ(output_of("pwd; echo $BERTH_TEST $HOME", options), "/\nyes\n");
}

TEST_P(ProcessTest, AGroupOfItsOwnOnRequest) {
    SpawnOptions options;
    options.input = SpawnOptions::kNullDevice;
    ChildProcess with = spawn({"sleep", "1000"}, {.has_own_group = true});
    ChildProcess without = spawn({"sleep", "1000"});
    EXPECT_EQ(::getpgid(with.pid()), with.pid());
    EXPECT_EQ(::getpgid(without.pid()), ::getpgrp());
}

TEST_P(ProcessTest, ManyChildrenAtOnce) {
    std::vector<ChildProcess> children;
    std::vector<int> codes;
    for (int i = 0; i < 20; ++i) {
        children.push_back(shell("exit " + std::to_string(i)));
    }
    const auto work = [&](ChildProcess& child) -> Detached {
        codes.push_back((co_await child.wait())->code);
    };
    for (ChildProcess& child : children) {
        work(child);
    }
    ASSERT_TRUE(run_until([&] { return codes.size() == children.size(); }));
    std::vector<int> wanted(children.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        wanted[i] = static_cast<int>(i);
    }
    EXPECT_THAT(codes, testing::UnorderedElementsAreArray(wanted));
}

TEST_P(ProcessTest, AnEmptyOneAnswersWithErrors) {
    ChildProcess child;
    EXPECT_EQ(child.kill(SIGTERM).error().code(), Errc::invalid_argument);
    EXPECT_EQ(child.exit_status().error().code(), Errc::invalid_argument);
    std::optional<Result<ExitStatus>> status;
    const auto work = [&]() -> Detached { status = co_await child.wait(); };
    work();
    ASSERT_TRUE(status.has_value());
    EXPECT_FALSE(*status);
}

BERTH_TEST_EVERY_ENGINE(ProcessTest);

}  // namespace
}  // namespace berth
