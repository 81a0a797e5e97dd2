// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/choices.h"
#include "bench/harness/environment.h"

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

struct NotingReporter : Reporter {
    void row(Row) override {}
    void progress(double, std::string_view) override {}
    void note(std::string_view text, bool is_partial) override {
        notes.emplace_back(text);
        was_partial = was_partial || is_partial;
    }
    bool is_interrupted() const override { return false; }

    std::vector<std::string> notes;
    bool was_partial = false;
};

Environment own_namespace() {
    Environment environment;
    environment.range = kBenchRange;
    environment.descriptor_limit = 65'536;
    return environment;
}

TEST(Choices, OccupancyCountsWholePortsAndLeavesOneBelowAHundred) {
    EXPECT_EQ(ports_at(0, 19'000), 0U);
    EXPECT_EQ(ports_at(99.9, 19'000), 18'981U);
    EXPECT_EQ(ports_at(99.9999, 19'000), 18'999U);
    EXPECT_EQ(ports_at(100, 19'000), 19'000U);
    EXPECT_EQ(ports_at(99.9, 10), 9U);
}

TEST(Choices, OnTheHostATenthOfThePortsStaysFree) {
    Environment environment = own_namespace();
    environment.isolation = Isolation::host;
    constexpr double kDefaults[] = {100, 0, 90, 99};
    NotingReporter reporter;
    EXPECT_EQ(choose_occupancies({}, kDefaults, environment, reporter),
              (std::vector<double>{0, 90}));
    ASSERT_EQ(reporter.notes.size(), 1U);
    EXPECT_NE(reporter.notes[0].find("99 %, 100 %"), std::string::npos) << reporter.notes[0];
    EXPECT_TRUE(reporter.was_partial);
}

TEST(Choices, ABenchWithoutIpv6IsPartialOnlyWhenItWasAskedFor) {
    constexpr Family kDefaults[] = {Family::ipv4, Family::ipv6};
    NotingReporter reporter;
    const auto by_default = choose_families({}, kDefaults, own_namespace(), reporter);
    EXPECT_EQ(by_default.value(), std::vector<Family>{Family::ipv4});
    EXPECT_FALSE(reporter.was_partial);
    Selection selection;
    selection.families = {Family::ipv4, Family::ipv6};
    EXPECT_TRUE(choose_families(selection, kDefaults, own_namespace(), reporter).has_value());
    EXPECT_TRUE(reporter.was_partial);
}

TEST(Choices, OnlyIpv6WhereItIsOffIsUnsupported) {
    constexpr Family kDefaults[] = {Family::ipv4};
    Selection selection;
    selection.families = {Family::ipv6};
    NotingReporter reporter;
    const auto families = choose_families(selection, kDefaults, own_namespace(), reporter);
    ASSERT_FALSE(families.has_value());
    EXPECT_EQ(families.error().code(), Errc::unsupported);
}

}  // namespace
}  // namespace berth::bench
