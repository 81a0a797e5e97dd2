// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/contenders.h"

#include "tests/bench/noting_reporter.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace berth::bench {
namespace {

Result<void> echo(EchoJob&) { return {}; }

Result<void> refuse() {
    return std::unexpected(Error(Errc::unsupported, "open", "io_uring", 0, "it is off"));
}

Program make(std::string_view program, std::string_view engine) {
    Program result = {.program = program, .engine = engine};
    result.echo = echo;
    return result;
}

/// As on a host with everything: raw, berth, and one peer.
std::vector<Program> all_programs() {
    return {make("raw", "select"),   make("raw", "poll"),       make("raw", "epoll"),
            make("raw", "io_uring"), make("berth", "select"),   make("berth", "epoll"),
            make("berth", "poll"),   make("berth", "io_uring"), make("libev", "epoll")};
}

bool can_echo(const Program& program) { return program.echo != nullptr; }

std::vector<std::string> names(const std::vector<Contender>& contenders, bool are_wanted) {
    std::vector<std::string> found;
    for (const Contender& contender : contenders) {
        if (contender.is_wanted == are_wanted) {
            found.push_back(name_of(*contender.program));
        }
    }
    return found;
}

TEST(Contenders, WhatIsComparedWithIsMeasuredButNotReported) {
    const std::vector<Program> programs = all_programs();
    Selection selection;
    selection.programs = {"berth"};
    selection.engines = {"poll"};
    NotingReporter reporter;
    const auto chosen = choose_contenders(programs, selection, {}, can_echo, reporter);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(names(*chosen, true), std::vector<std::string>{"berth poll"});
    EXPECT_EQ(names(*chosen, false), (std::vector<std::string>{"raw poll", "raw epoll"}));
    const References references = references_of(*chosen, 2);
    EXPECT_EQ(name_of(*(*chosen)[references.raw].program), "raw poll");
    EXPECT_EQ(name_of(*(*chosen)[references.epoll].program), "raw epoll");
    EXPECT_TRUE(reporter.notes.empty());
}

TEST(Contenders, WhatOneCannotDoIsMissingOnlyWhereItWasNamed) {
    const std::vector<Program> programs = all_programs();
    const Error limit(Errc::unsupported, "add an event", {}, 0, "it takes no descriptor from 9 on");
    for (const bool is_named : {false, true}) {
        Selection selection;
        selection.programs = {"libev"};
        if (is_named) {
            selection.engines = {"epoll"};
        }
        NotingReporter reporter;
        const auto chosen = choose_contenders(programs, selection, {}, can_echo, reporter);
        ASSERT_TRUE(chosen);
        const Contender& libev = chosen->back();
        EXPECT_EQ(libev.is_named, is_named);
        reporter.was_partial = false;
        note_left_out(libev, "at 9 connections", limit, reporter);
        EXPECT_EQ(reporter.notes.back(),
                  "libev epoll at 9 connections is left out: add an event: not supported here: it "
                  "takes no descriptor from 9 on");
        EXPECT_EQ(reporter.was_partial, is_named);
        note_left_out(libev, "here", Error(Errc::system, "echo"), reporter);
        EXPECT_TRUE(reporter.was_partial);
    }
}

TEST(Contenders, PollsOtherArraysAreComparedWithTheIndexedOne) {
    const std::vector<Program> programs = {make("raw", "poll"), make("raw", "poll-linear"),
                                           make("raw", "epoll")};
    Selection selection;
    selection.programs = {"raw"};
    selection.engines = {"poll-linear"};
    NotingReporter reporter;
    const auto chosen = choose_contenders(programs, selection, {}, can_echo, reporter);
    ASSERT_TRUE(chosen);
    ASSERT_EQ(names(*chosen, true), std::vector<std::string>{"raw poll-linear"});
    const References references = references_of(*chosen, chosen->size() - 1);
    EXPECT_EQ(name_of(*(*chosen)[references.raw].program), "raw poll");
}

TEST(Contenders, WhatWasNotBuiltIsPartialOnlyWhenItWasNamed) {
    const std::vector<Program> programs = all_programs();
    NotingReporter reporter;
    ASSERT_TRUE(choose_contenders(programs, {}, {}, can_echo, reporter));
    ASSERT_EQ(reporter.notes.size(), 1U);
    EXPECT_NE(reporter.notes[0].find("libuv"), std::string::npos);
    EXPECT_FALSE(reporter.was_partial);

    Selection selection;
    selection.programs = {"raw", "libuv"};
    ASSERT_TRUE(choose_contenders(programs, selection, {}, can_echo, reporter));
    EXPECT_TRUE(reporter.was_partial);
}

TEST(Contenders, WhatThisHostCannotRunIsLeftOutWithItsReason) {
    std::vector<Program> programs = all_programs();
    for (Program& program : programs) {
        program.probe = program.engine == "io_uring" ? refuse : nullptr;
    }
    Selection selection;
    selection.programs = {"raw"};
    NotingReporter reporter;
    const auto chosen = choose_contenders(programs, selection, {}, can_echo, reporter);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->size(), 3U);
    ASSERT_EQ(reporter.notes.size(), 1U);
    EXPECT_NE(reporter.notes[0].find("it is off"), std::string::npos) << reporter.notes[0];
    EXPECT_TRUE(reporter.was_partial);

    selection.engines = {"io_uring"};
    const auto refused = choose_contenders(programs, selection, {}, can_echo, reporter);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::unsupported);
}

TEST(Contenders, OnlyProgramsThatHaveTheJobTakePart) {
    std::vector<Program> programs = all_programs();
    programs.back().echo = nullptr;
    NotingReporter reporter;
    const auto chosen = choose_contenders(programs, {}, {}, can_echo, reporter);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->size(), programs.size() - 1);
}

TEST(Contenders, EveryGroupHasTheReferencesOfItsMembers) {
    const std::vector<Program> programs = all_programs();
    NotingReporter reporter;
    const auto chosen = choose_contenders(programs, {}, {}, can_echo, reporter);
    ASSERT_TRUE(chosen);
    for (std::size_t capacity = 1; capacity <= programs.size(); ++capacity) {
        std::vector<bool> is_measured(chosen->size());
        for (const auto& group : make_groups(*chosen, capacity)) {
            EXPECT_LE(group.size(), std::max<std::size_t>(capacity, 3));
            const auto has = [&](std::size_t index) {
                return index == kNoContender || std::ranges::find(group, index) != group.end();
            };
            for (const std::size_t member : group) {
                is_measured[member] = true;
                EXPECT_TRUE(has(references_of(*chosen, member).raw)) << capacity;
                EXPECT_TRUE(has(references_of(*chosen, member).epoll)) << capacity;
            }
        }
        EXPECT_EQ(std::ranges::count(is_measured, true), std::ssize(programs)) << capacity;
    }
}

TEST(Contenders, WithRoomForAllThereIsOneGroup) {
    const std::vector<Program> programs = all_programs();
    NotingReporter reporter;
    const auto chosen = choose_contenders(programs, {}, {}, can_echo, reporter);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(make_groups(*chosen, 100).size(), 1U);
}

TEST(Programs, EveryNameOfAProgramAndEngineIsKnown) {
    for (const Program& program : programs()) {
        EXPECT_NE(std::ranges::find(program_names(), program.program), program_names().end());
        EXPECT_NE(std::ranges::find(engine_names(), program.engine), engine_names().end());
    }
}

// What is missing from a table shows nowhere else.
TEST(Programs, RawAndBerthRunOverEveryEngine) {
    using Engines = std::vector<std::string_view>;
    const auto engines_of = [](std::string_view name, auto workload) {
        Engines engines;
        for (const Program& program : programs()) {
            if (program.program == name && program.*workload != nullptr) {
                engines.push_back(program.engine);
            }
        }
        std::ranges::sort(engines);
        return engines;
    };
    const Engines four = {"epoll", "io_uring", "poll", "select"};
    for (const std::string_view name : {"berth", "berth-coroutines"}) {
        EXPECT_EQ(engines_of(name, &Program::transfer), four) << name;
        EXPECT_EQ(engines_of(name, &Program::echo), four) << name;
        EXPECT_EQ(engines_of(name, &Program::churn), four) << name;
        EXPECT_EQ(engines_of(name, &Program::datagrams), four) << name;
        EXPECT_EQ(engines_of(name, &Program::wake), four) << name;
    }
    const Engines raw = {"epoll",       "epoll-edge",  "io_uring", "poll",
                         "poll-linear", "poll-sorted", "select"};
    EXPECT_EQ(engines_of("raw", &Program::transfer), raw);
    EXPECT_EQ(engines_of("raw", &Program::echo), raw);
    for (const std::string_view engine : {"epoll", "epoll-edge", "io_uring", "poll", "select"}) {
        EXPECT_TRUE(std::ranges::count(engines_of("raw", &Program::churn), engine) == 1) << engine;
        EXPECT_TRUE(std::ranges::count(engines_of("raw", &Program::datagrams), engine) == 1)
            << engine;
        EXPECT_TRUE(std::ranges::count(engines_of("raw", &Program::wake), engine) == 1) << engine;
    }
}

}  // namespace
}  // namespace berth::bench
