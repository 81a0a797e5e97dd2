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

Outcome run_words(const std::vector<const char*>& words) {
    std::ostringstream out;
    std::ostringstream err;
    const ExitCode code = run(words, out, err);
    return {code, out.str(), err.str()};
}

void expect_usage(const std::vector<const char*>& words, const char* text) {
    const Outcome outcome = run_words(words);
    EXPECT_EQ(outcome.code, ExitCode::usage) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1);
}

TEST(AttachCommand, HelpNamesVerbsAndOptions) {
    const Outcome all = run_words({"--help"});
    for (const char* verb : {"attach", "detach", "agent"}) EXPECT_THAT(all.out, HasSubstr(verb));
    const Outcome attach = run_words({"attach", "--help"});
    EXPECT_EQ(attach.code, ExitCode::ok);
    for (const char* option : {"--cgroup", "--pins", "--range", "--exclude", "--no-agent"}) {
        EXPECT_THAT(attach.out, HasSubstr(option));
    }
    EXPECT_THAT(run_words({"detach", "--help"}).out, HasSubstr("--pins"));
    EXPECT_THAT(run_words({"agent", "--help"}).out, HasSubstr("--pins"));
}

TEST(AttachCommand, WrongWordsAreRefused) {
    expect_usage({"attach", "--frob"},
                 "berth attach: unknown option '--frob'; accepted: --help, --pins, --cgroup, "
                 "--range, --exclude or --no-agent\n");
    expect_usage({"attach", "--frob=3"}, "unknown option '--frob';");
    expect_usage({"attach", "-x"}, "unknown option '-x';");
    expect_usage({"attach", "frob"}, "unexpected word 'frob'; accepted: --help");
    expect_usage({"attach", "--cgroup"}, "berth attach: --cgroup needs a value: PATH\n");
    expect_usage({"attach", "--no-agent=maybe"}, "--no-agent");
    expect_usage({"attach", "--range", "9-1"}, "--range '9-1'");
    expect_usage({"attach", "--range", "1-2,4-5"}, "one range");
    expect_usage({"attach", "--range", "x"}, "32768-60999");
    expect_usage({"attach", "--exclude", "70000"}, "8080,9000-9010");
    expect_usage({"detach", "--cgroup", "/"},
                 "berth detach: unknown option '--cgroup'; accepted: --help or --pins\n");
    expect_usage({"agent", "--no-agent"}, "berth agent: unknown option '--no-agent'");
}

// Whether or not this berth has the programs, and whoever runs the test.
TEST(AttachCommand, NothingThereIsOneLineAndNoSuccess) {
    const Outcome missing =
        run_words({"attach", "--cgroup", "/no/such/cgroup", "--pins", "/no/such/pins"});
    EXPECT_TRUE(missing.code == ExitCode::usage || missing.code == ExitCode::unsupported);
    EXPECT_EQ(std::ranges::count(missing.err, '\n'), 1);
    for (const char* verb : {"detach", "agent"}) {
        const Outcome outcome = run_words({verb, "--pins", "/no/such/pins"});
        EXPECT_TRUE(outcome.code == ExitCode::failed || outcome.code == ExitCode::unsupported);
        EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1);
    }
}

}  // namespace
}  // namespace berth::cli
