// SPDX-License-Identifier: Apache-2.0
#pragma once

// The conformance suite: each behaviour that a loop promises, over each engine. A test is a
// TEST_P(EngineTest, …); an engine that this kernel does not have is skipped with its reason.
//
// Both ends of a connection are on the test's own loop, so that the suite also runs in a simulated
// network, where nothing but the loop exists.

#include "tests/conformance/watched.h"

#include <berth/listener.h>
#include <berth/loop.h>
#include <berth/stream.h>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace berth::test {

class EngineTest : public testing::TestWithParam<EngineKind> {
public:
    EngineTest();
    ~EngineTest() override;

protected:
    void SetUp() override;
    void TearDown() override;

    /// Makes the loop; SetUp() does. Skips the test where this kernel lacks the engine.
    void start(const LoopOptions& options = {});
    /// Skips the test where the kernel lacks the engine, and in a simulation: `reason` says why
    /// that does not do. To be called by SetUp().
    void need_kernel(const char* reason);
    Loop& loop() { return *loop_; }
    void end_loop() { loop_.reset(); }
    /// Runs the loop until `condition` holds; fails the test after ten seconds of its time.
    void run_until(const std::function<bool()>& condition);
    /// Runs what is ready now and what that causes, but waits for nothing.
    void run_ready();
    /// Skips the test in a simulation, which has one thread; to be called by SetUp(), or before
    /// `if (IsSkipped()) return;`.
    void need_threads();
    /// That much time passes without the loop.
    void let_pass(std::chrono::nanoseconds duration);
    void let_pass_until(TimePoint when);
    /// Another loop of the same engine.
    Result<Loop> make_loop(const LoopOptions& options = {});
    bool is_simulated() const { return GetParam() == EngineKind::simulated; }

    /// A unix address of this test's own, and of this process's.
    Endpoint unix_name() const;

    struct Pair {
        Stream client;
        Stream server;
    };
    /// A TCP connection over loopback; both ends on this loop.
    Pair connect_pair(Family family = Family::ipv4);
    Pair connect_pair_at(const Endpoint& local);

    /// Everything that comes until the end of the stream or an error.
    struct Everything {
        std::vector<std::byte> bytes;
        int system_errno = 0;
    };
    Everything receive_all(Stream& stream);
    /// Exactly `size` bytes, or what came before the end.
    std::vector<std::byte> receive_exactly(Stream& stream, std::size_t size);

private:
    struct World;

    static void check(const Result<Loop>& loop);

    std::unique_ptr<World> world_;
    std::optional<Loop> loop_;
};

/// `size` bytes that differ from those of other seeds.
std::vector<std::byte> pattern(std::size_t size, unsigned seed = 1);
std::span<const std::byte> bytes_of(std::string_view text);
std::string text_of(std::span<const std::byte> bytes);

}  // namespace berth::test
