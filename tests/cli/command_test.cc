// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace berth::cli {
namespace {

using testing::HasSubstr;

struct Outcome {
    ExitCode code;
    std::string out;
    std::string err;
};

Outcome run_words(std::initializer_list<const char*> words) {
    const std::vector<const char*> arguments(words);
    std::ostringstream out;
    std::ostringstream err;
    const ExitCode code = run(arguments, out, err);
    return {code, out.str(), err.str()};
}

/// Refused before anything is measured: exit 2 and one line on stderr that names what is wrong.
void expect_refused(std::initializer_list<const char*> words, const std::string& named,
                    const std::string& accepted) {
    const Outcome outcome = run_words(words);
    EXPECT_EQ(outcome.code, ExitCode::usage) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(named));
    EXPECT_THAT(outcome.err, HasSubstr(accepted));
}

TEST(Command, VersionGoesToStandardOutput) {
    const Outcome outcome = run_words({"--version"});
    EXPECT_EQ(outcome.code, ExitCode::ok);
    EXPECT_THAT(outcome.out, testing::StartsWith("berth "));
    EXPECT_EQ(outcome.err, "");
}

TEST(Command, HelpNamesTheVerbsTheBenchesAndTheOptions) {
    EXPECT_THAT(run_words({"--help"}).out, HasSubstr("bench"));
    const Outcome bench = run_words({"bench", "--help"});
    EXPECT_EQ(bench.code, ExitCode::ok);
    EXPECT_THAT(bench.out, HasSubstr("reproducer"));
    EXPECT_THAT(bench.out, HasSubstr("--occupancy"));
    EXPECT_THAT(run_words({"bench", "connect", "--help"}).out, HasSubstr("kernel+noport"));
    const Outcome echo = run_words({"bench", "echo", "--help"});
    EXPECT_THAT(echo.out, HasSubstr("libuv"));
    EXPECT_THAT(echo.out, HasSubstr("io_uring"));
}

TEST(Command, AMissingOrUnknownVerbIsRefused) {
    expect_refused({}, "verb", "run, attach, detach, agent or bench");
    expect_refused({"frob"}, "'frob'", "bench");
    expect_refused({"--frob"}, "'--frob'", "berth --help");
}

TEST(Command, AnUnknownBenchOrASecondOneIsRefused) {
    expect_refused({"bench", "frob"}, "'frob'", "bind, connect, reproducer, table, history, ");
    expect_refused({"bench", "bind", "frob"}, "'frob'", "options");
    expect_refused({"bench", "bind", "connect"}, "'bind' and 'connect'", "one bench");
}

TEST(Command, AnUnknownOptionIsRefused) {
    expect_refused({"bench", "bind", "--frob", "1"}, "'--frob'", "--protocol");
    expect_refused({"bench", "--frob"}, "'--frob'", "--protocol");
}

TEST(Command, AnOptionThatTheBenchDoesNotKnowIsRefused) {
    expect_refused({"bench", "bind", "--rate", "5"}, "--rate", "--occupancy");
    expect_refused({"bench", "--threads", "2", "bind"}, "--threads", "--occupancy");
    expect_refused({"bench", "table", "--protocol", "udp"}, "--protocol", "--threads");
}

TEST(Command, AnOptionWithoutItsValueIsRefused) {
    expect_refused({"bench", "bind", "--occupancy"}, "--occupancy", "percentages from 0 to 100");
}

TEST(Command, ValuesOutsideOfTheirBoundsAreRefused) {
    expect_refused({"bench", "bind", "--occupancy", "0,101"}, "'101'", "from 0 to 100");
    expect_refused({"bench", "bind", "--occupancy", "-1"}, "'-1'", "from 0 to 100");
    expect_refused({"bench", "bind", "--occupancy", "nan"}, "'nan'", "from 0 to 100");
    expect_refused({"bench", "bind", "--repeats", "0"}, "'0'", "from 1 to 1000");
    expect_refused({"bench", "connect", "--destinations", "17"}, "'17'", "from 1 to 16");
    expect_refused({"bench", "connect", "--seconds", "1e9"}, "'1e9'", "0.1 to 3600");
    expect_refused({"bench", "bind", "--seed", "-1"}, "'-1'", "whole number");
    expect_refused({"bench", "bind", "--seed", "99999999999999999999"}, "'9999", "whole number");
}

TEST(Command, TrailingJunkAndEmptyItemsAreRefused) {
    expect_refused({"bench", "bind", "--repeats", "5x"}, "'5x'", "a number");
    expect_refused({"bench", "bind", "--occupancy", "5,"}, "an empty value", "percentages");
    expect_refused({"bench", "bind", "--occupancy", ""}, "an empty value", "percentages");
    expect_refused({"bench", "bind", "--allocator", "kernel,,berth"}, "an empty value", "names");
    expect_refused({"bench", "bind", "--occupancy", " 5"}, "' 5'", "percentages");
}

TEST(Command, ListGivenTwiceGoesOn) {
    expect_refused({"bench", "bind", "--protocol", "sctp", "--protocol", "udp"}, "'sctp'",
                   "udp or tcp");
    expect_refused({"bench", "bind", "--repeats", "5x", "--occupancy", "1", "--occupancy", "x"},
                   "'x'", "percentages");
}

TEST(Command, NamesThatDoNotExistAreRefused) {
    expect_refused({"bench", "bind", "--protocol", "sctp"}, "'sctp'", "udp or tcp");
    expect_refused({"bench", "connect", "--protocol", "udp"}, "'udp'", "tcp");
    expect_refused({"bench", "bind", "--family", "ipv5"}, "'ipv5'", "ipv4 or ipv6");
    expect_refused({"bench", "bind", "--allocator", "kernel,spin"}, "'spin'", "kernel+range");
    expect_refused({"bench", "--allocator", "frob"}, "'frob'", "kernel+range");
    expect_refused({"bench", "bind", "--format", "xml"}, "'xml'", "ndjson");
    expect_refused({"bench", "bind", "--namespace", "mine"}, "'mine'", "auto or host");
    expect_refused({"bench", "reproducer", "--mode", "fibers"}, "'fibers'", "threads");
}

}  // namespace
}  // namespace berth::cli
