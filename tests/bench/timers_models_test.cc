// SPDX-License-Identifier: Apache-2.0
#include "bench/timers/costs.h"
#include "bench/timers/programs.h"
#include "bench/timers/run_timers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace berth::bench {
namespace {

constexpr std::uint32_t kCount = 2'000;
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kHourNs = 3'600'000 * kMs;

std::unique_ptr<TimerSubject> subject_of(std::string_view program) {
    auto subject = make_timer_subject(program, kCount);
    EXPECT_TRUE(subject) << (subject ? "" : subject.error().message());
    return subject ? std::move(*subject) : nullptr;
}

std::vector<std::uint32_t> every_timer() {
    std::vector<std::uint32_t> timers(kCount);
    std::iota(timers.begin(), timers.end(), 0U);
    return timers;
}

std::vector<std::uint32_t> fired_by(const TimerSubject& subject) {
    EXPECT_EQ(subject.fired_count(), kCount);
    return {subject.fired().begin(), subject.fired().end()};
}

/// Milliseconds from 1 on, three timers each, in no order.
std::vector<std::uint64_t> mixed_timeouts() {
    std::vector<std::uint64_t> timeouts_ns(kCount);
    for (std::uint32_t timer = 0; timer < kCount; ++timer) {
        timeouts_ns[timer] = (1 + (timer * 7'919ULL % kCount) / 3) * kMs;
    }
    return timeouts_ns;
}

class EveryTimerProgram : public testing::TestWithParam<std::string_view> {
protected:
    void SetUp() override {
        if (!is_timer_program_built(GetParam())) {
            GTEST_SKIP() << GetParam() << " was not there when berth was built";
        }
    }
};

TEST_P(EveryTimerProgram, FiresEveryTimerOnce) {
    const auto subject = subject_of(GetParam());
    for (unsigned turn = 0; turn < 2; ++turn) {
        const std::vector<std::uint64_t> timeouts_ns(kCount, kMs);
        subject->schedule(timeouts_ns);
        subject->let_pass(kMs);
        subject->fire();
        auto fired = fired_by(*subject);
        std::ranges::sort(fired);
        EXPECT_EQ(fired, every_timer());
    }
}

TEST_P(EveryTimerProgram, DoesNotFireWhatWasCancelled) {
    const auto subject = subject_of(GetParam());
    subject->schedule(std::vector<std::uint64_t>(kCount, kHourNs));
    subject->cancel(every_timer());
    // Only idle timers can be scheduled, and the second time is what counts.
    subject->schedule(std::vector<std::uint64_t>(kCount, kMs));
    subject->let_pass(kMs);
    subject->fire();
    EXPECT_EQ(subject->fired_count(), kCount);
}

TEST_P(EveryTimerProgram, SurvivesAWholeRound) {
    std::mt19937_64 random(5);
    const TimerPlan plan = make_timer_plan(kCount, kMs, random);
    const auto costs = measure_timers(GetParam(), *subject_of(GetParam()), plan);
    ASSERT_TRUE(costs) << costs.error().message();
    EXPECT_GT(costs->fire_ns, 0);
}

std::string test_name(const testing::TestParamInfo<std::string_view>& parameter) {
    return std::string(parameter.param);
}

INSTANTIATE_TEST_SUITE_P(Timers, EveryTimerProgram,
                         testing::ValuesIn(timer_programs().begin(), timer_programs().end()),
                         test_name);

// Those that live in virtual time can be asked more.
class EveryTimerModel : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryTimerModel, FiresInTheOrderOfTheDeadlines) {
    const auto subject = subject_of(GetParam());
    const auto timeouts_ns = mixed_timeouts();
    subject->schedule(timeouts_ns);
    subject->let_pass(kCount * kMs);
    subject->fire();
    auto fired = fired_by(*subject);
    EXPECT_TRUE(
        std::ranges::is_sorted(fired, {}, [&](std::uint32_t timer) { return timeouts_ns[timer]; }));
    std::ranges::sort(fired);
    EXPECT_EQ(fired, every_timer());
}

TEST_P(EveryTimerModel, FiresWhatWasPushedBackAtItsNewDeadlineOnly) {
    const auto subject = subject_of(GetParam());
    subject->schedule(mixed_timeouts());
    std::vector<Rearm> rearms;
    for (const std::uint32_t timer : every_timer()) {
        rearms.push_back({.timeout_ns = kHourNs + timer * kMs, .timer = timer});
    }
    subject->rearm(rearms);
    subject->let_pass(kCount * kMs);
    subject->fire();
    EXPECT_EQ(subject->fired_count(), 0U);
    subject->let_pass(kHourNs + kCount * kMs);
    subject->fire();
    EXPECT_EQ(fired_by(*subject), every_timer());
}

TEST_P(EveryTimerModel, FiresNothingBeforeItsTime) {
    const auto subject = subject_of(GetParam());
    subject->schedule(std::vector<std::uint64_t>(kCount, kHourNs));
    subject->let_pass(kHourNs / 2);
    subject->fire();
    EXPECT_EQ(subject->fired_count(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Timers, EveryTimerModel, testing::Values("berth", "heap", "rbtree"),
                         test_name);

TEST(TimerPrograms, AnUnknownNameIsRefused) {
    const auto subject = make_timer_subject("sundial", kCount);
    ASSERT_FALSE(subject);
    EXPECT_EQ(subject.error().code(), Errc::invalid_argument);
    EXPECT_FALSE(is_timer_program_built("sundial"));
}

class RowKeeper final : public Reporter {
public:
    void row(Row row) override { rows.push_back(std::move(row)); }
    void progress(double fraction, std::string_view) override {
        EXPECT_GE(fraction, 0);
        EXPECT_LE(fraction, 1);
    }
    void note(std::string_view, bool) override {}
    bool is_interrupted() const override { return false; }

    std::vector<Row> rows;
};

TEST(RunTimers, GivesARowOfCostsForEachProgram) {
    Selection selection;
    selection.programs = {"heap", "berth"};
    selection.repeats = 2;
    RowKeeper keeper;
    ASSERT_TRUE(run_timers_of(kCount, kMs, selection, keeper));
    ASSERT_EQ(keeper.rows.size(), 2U);
    const Row& row = keeper.rows[0];
    EXPECT_EQ(row.bench, "timers");
    ASSERT_EQ(row.variables.size(), 3U);
    EXPECT_EQ(row.variables[0].second, Value("heap"));
    EXPECT_EQ(row.variables[1].second, Value());
    EXPECT_EQ(row.variables[2].second, Value(std::int64_t{kCount}));
    std::vector<std::string> figures;
    for (const auto& [name, value] : row.figures) figures.push_back(name);
    EXPECT_EQ(figures,
              (std::vector<std::string>{
                  "schedule_ns", "cancel_ns", "rearm_ns", "fire_ns", "schedule_ratio_to_berth",
                  "cancel_ratio_to_berth", "rearm_ratio_to_berth", "fire_ratio_to_berth",
                  "schedule_spread_percent", "cancel_spread_percent", "rearm_spread_percent",
                  "fire_spread_percent", "spread_percent", "rounds"}));
    EXPECT_EQ(row.figures.back().second, Value(std::int64_t{2}));
    EXPECT_EQ(keeper.rows[1].figures[4].second, Value(1.0));
}

TEST(RunTimers, RefusesAnUnknownProgram) {
    Selection selection;
    selection.programs = {"sundial"};
    RowKeeper keeper;
    EXPECT_FALSE(run_timers_of(kCount, kMs, selection, keeper));
}

}  // namespace
}  // namespace berth::bench
