// SPDX-License-Identifier: Apache-2.0

// Thousands of scenarios in a simulated kernel whose every call may fail, for each engine that can
// run there. BERTH_SIMULATION_SEED=7 runs a single one of them, BERTH_SIMULATION_SEEDS=100000 so
// many instead of the usual number.

#include "tests/stress/scenario.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::test::stress {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kFewer = 10;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr std::uint64_t kFewer = 10;
#else
constexpr std::uint64_t kFewer = 1;
#endif
#else
constexpr std::uint64_t kFewer = 1;
#endif

struct Share {
    EngineKind engine;
    unsigned index;
    unsigned count;            // of the shares of this engine
    std::uint64_t seed_count;  // of this engine
};

std::optional<std::uint64_t> number_from(const char* variable) {
    const char* text = std::getenv(variable);
    return text == nullptr ? std::nullopt
                           : std::optional<std::uint64_t>(std::strtoull(text, nullptr, 10));
}

std::string command_for(std::uint64_t seed) {
    std::string program(4096, '\0');
    const ssize_t size = ::readlink("/proc/self/exe", program.data(), program.size());
    program.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    return "BERTH_SIMULATION_SEED=" + std::to_string(seed) + " " + program +
           " --gtest_filter=" + test.test_suite_name() + "." + test.name() + "\n";
}

// A broken invariant, a program that waits or spins for ever, a bad pointer: the seed must be told.
std::string last_words;

class LastWords {
public:
    LastWords() {
        for (std::size_t i = 0; i < kSignals.size(); ++i) {
            before_[i] = std::signal(kSignals[i], &LastWords::say);
        }
    }
    ~LastWords() {
        for (std::size_t i = 0; i < kSignals.size(); ++i) {
            std::signal(kSignals[i], before_[i]);
        }
    }

private:
    static constexpr std::array kSignals = {SIGABRT, SIGSEGV};

    static void say(int signal) {
        [[maybe_unused]] const ssize_t written =
            ::write(STDERR_FILENO, last_words.data(), last_words.size());
        std::signal(signal, SIG_DFL);
        std::raise(signal);
    }

    std::array<void (*)(int), kSignals.size()> before_;
};

class SimulationStress : public testing::TestWithParam<Share> {
protected:
    static bool run(std::uint64_t seed, std::size_t trace_length) {
        const std::string command = command_for(seed);
        last_words = "it ended in the scenario of\n  " + command;
        const Outcome outcome = run_scenario(seed, GetParam().engine, trace_length);
        EXPECT_EQ(outcome.findings, "") << "the last calls:\n"
                                        << outcome.trace << "again:\n  " << command;
        return outcome.findings.empty();
    }
};

TEST_P(SimulationStress, EverySeedKeepsEveryPromise) {
    constexpr std::size_t kShortTrace = 40;
    constexpr std::size_t kLongTrace = 10'000;
    constexpr unsigned kMostFailures = 3;
    const LastWords words;
    const Share& share = GetParam();
    if (const auto seed = number_from("BERTH_SIMULATION_SEED")) {
        run(*seed, kLongTrace);
        return;
    }
    const std::uint64_t count =
        number_from("BERTH_SIMULATION_SEEDS").value_or(share.seed_count / kFewer);
    unsigned failed_count = 0;
    for (std::uint64_t seed = 1 + share.index; seed <= count; seed += share.count) {
        failed_count += run(seed, kShortTrace) ? 0U : 1U;
        ASSERT_LT(failed_count, kMostFailures);
    }
}

std::vector<Share> shares() {
    constexpr unsigned kShares = 4;
    std::vector<Share> all;
    for (const auto& [engine, count] :
         {std::pair{EngineKind::simulated, 4000U}, std::pair{EngineKind::poll, 1000U},
          std::pair{EngineKind::select, 200U}}) {
        for (unsigned index = 0; index < kShares; ++index) {
            all.push_back({engine, index, kShares, count});
        }
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Of, SimulationStress, testing::ValuesIn(shares()),
                         [](const testing::TestParamInfo<Share>& parameter) {
                             return std::string(to_string(parameter.param.engine)) +
                                    std::to_string(parameter.param.index);
                         });

/// The two calls at which two traces part, and some of those that lead there.
std::string parting(std::string_view first, std::string_view second) {
    constexpr std::size_t kBefore = 2'000;
    const auto place =
        static_cast<std::size_t>(std::ranges::mismatch(first, second).in1 - first.begin());
    const std::string_view common = first.substr(0, place);
    const std::size_t line = common.rfind('\n') + 1;
    const auto call = [line](std::string_view trace) {
        return std::string(trace.substr(line, trace.find('\n', line) - line));
    };
    const std::size_t begin = line - std::min(line, kBefore);
    return "one calls  " + call(first) + "\nthe other  " + call(second) + "\nafter\n" +
           std::string(common.substr(begin, line - begin));
}

/// While one lives, what is allocated lies elsewhere, and other memory is used again: no decision
/// may depend on it.
class OtherHeap {
public:
    OtherHeap() {
        constexpr std::size_t kLargest = 4096;
        constexpr std::size_t kStep = 16;
        constexpr std::size_t kCount = 16;
        for (std::size_t size = kStep; size <= kLargest; size += kStep) {
            for (std::size_t i = 0; i < kCount; ++i) {
                blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
            }
        }
        for (std::size_t i = 0; i < blocks_.size(); i += 2) {
            blocks_[i].reset();
        }
    }

private:
    std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

class SimulationDeterminism : public testing::TestWithParam<EngineKind> {};

TEST_P(SimulationDeterminism, SameSeedMakesTheSameCalls) {
    constexpr std::size_t kWholeTrace = 1 << 16;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const Outcome first = run_scenario(seed, GetParam(), kWholeTrace);
        const OtherHeap heap;
        const Outcome second = run_scenario(seed, GetParam(), kWholeTrace);
        EXPECT_TRUE(first.trace == second.trace)
            << "seed " << seed << ": " << parting(first.trace, second.trace);
        EXPECT_EQ(first.completion_count, second.completion_count);
        EXPECT_EQ(first.fault_count, second.fault_count);
    }
    EXPECT_NE(run_scenario(1, GetParam()).trace, run_scenario(2, GetParam()).trace);
}

INSTANTIATE_TEST_SUITE_P(Of, SimulationDeterminism,
                         testing::Values(EngineKind::simulated, EngineKind::poll,
                                         EngineKind::select),
                         [](const testing::TestParamInfo<EngineKind>& parameter) {
                             return std::string(to_string(parameter.param));
                         });

}  // namespace
}  // namespace berth::test::stress
