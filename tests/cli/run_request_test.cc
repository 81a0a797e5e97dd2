// SPDX-License-Identifier: Apache-2.0
#include "cli/run/run_request.h"

#include <gtest/gtest.h>

namespace berth::cli {
namespace {

std::expected<RunRequest, std::string> request_of(std::vector<const char*> words) {
    return make_run_request(words);
}

TEST(RunRequest, EveryOptionArrives) {
    const auto request =
        request_of({"--range",       "40000-40099", "--rest=250", "--exclude", "40001,40010-40019",
                    "--per-process", "7",           "--table",    "a_b-1",     "--on-taken",
                    "another",       "--when-full", "wait=1.5",   "--stats",   "--log",
                    "file",          "--",          "program",    "--range",   "x"});
    ASSERT_TRUE(request) << request.error();
    EXPECT_EQ(request->range, (PortRange{40000, 40099}));
    EXPECT_EQ(request->rest_period, std::chrono::milliseconds(250));
    EXPECT_EQ(request->excluded, (std::vector<PortRange>{{40001, 40001}, {40010, 40019}}));
    EXPECT_EQ(request->per_process, 7U);
    EXPECT_EQ(request->table, "a_b-1");
    EXPECT_TRUE(request->takes_another);
    EXPECT_EQ(request->wait_for_port, std::chrono::milliseconds(1500));
    EXPECT_TRUE(request->wants_stats);
    EXPECT_EQ(request->log_path, "file");
    EXPECT_EQ(request->command, (std::vector<std::string>{"program", "--range", "x"}));
}

TEST(RunRequest, BpfGoesWithWhatNeedsNothingInTheProgram) {
    const auto request = request_of({"--bpf", "--range", "40000-40099", "--rest", "5", "--exclude",
                                     "40001", "--stats", "--", "program"});
    ASSERT_TRUE(request) << request.error();
    EXPECT_TRUE(request->uses_bpf);
    const std::vector<const char*> others[] = {{"--per-process", "7"},
                                               {"--table", "a"},
                                               {"--on-taken", "another"},
                                               {"--when-full", "wait=1"},
                                               {"--log", "file"}};
    for (const auto& option : others) {
        const auto refused = request_of({"--bpf", option[0], option[1], "--", "program"});
        ASSERT_FALSE(refused) << option[0];
        EXPECT_NE(refused.error().find("--bpf goes with"), std::string::npos);
    }
}

TEST(RunRequest, OptionsEndAtTheFirstOtherWord) {
    const auto request = request_of({"--stats", "program", "--stats", "--", "x"});
    ASSERT_TRUE(request);
    EXPECT_EQ(request->command, (std::vector<std::string>{"program", "--stats", "--", "x"}));
}

TEST(RunRequest, AValueThatIsNotAcceptedIsNamedWithWhatIs) {
    const std::pair<const char*, std::vector<const char*>> refused[] = {
        {"--range", {"", "5", "9-5", "0-9", "1-65536", "a-b", "1-2-3", "-5", "5-"}},
        {"--rest", {"", "-1", "1.5", "86400001"}},
        {"--exclude", {"", "x", "1-2,", "70000", "0"}},
        {"--per-process", {"", "0", "65536", "many"}},
        {"--table", {"", "a/b", "..", "012345678901234567890123456789012"}},
        {"--on-taken", {"", "other"}},
        {"--when-full", {"", "wait", "wait=", "wait=0", "wait=1e9", "wait=nan", "wait=-1"}},
        {"--log", {""}}};
    for (const auto& [option, values] : refused) {
        for (const char* value : values) {
            const auto request = request_of({option, value, "program"});
            ASSERT_FALSE(request) << option << ' ' << value;
            EXPECT_NE(request.error().find("does not accept"), std::string::npos);
            EXPECT_NE(request.error().find(option), std::string::npos);
        }
    }
}

TEST(RunRequest, AMissingProgramIsSaid) {
    for (const auto& words : {std::vector<const char*>{}, {"--"}, {"--stats"}, {"--stats", "--"}}) {
        const auto request = request_of(words);
        ASSERT_FALSE(request);
        EXPECT_NE(request.error().find("a program is missing"), std::string::npos);
    }
}

TEST(RunRequest, HelpNamesEveryOption) {
    EXPECT_TRUE(request_of({"-h"})->wants_help);
    EXPECT_TRUE(request_of({"--help"})->wants_help);
    for (const RunOption& option : run_options()) {
        EXPECT_NE(run_help().find("--" + std::string(option.name)), std::string::npos);
    }
}

}  // namespace
}  // namespace berth::cli
