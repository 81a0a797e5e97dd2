// SPDX-License-Identifier: Apache-2.0
// The whole way from the command line to the rows, with the kernel's real answers, in a child: the
// command moves its process into a network namespace.
#include "cli/command.h"

#include <berth/descriptor.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

namespace berth::cli {
namespace {

struct Outcome {
    int status;
    std::string out;
};

std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t size; (size = ::read(fd, buffer, sizeof(buffer))) > 0;) {
        text.append(buffer, static_cast<std::size_t>(size));
    }
    return text;
}

[[noreturn]] void run_and_exit(const std::vector<const char*>& words, int result) {
    std::ostringstream out;
    std::ostringstream err;
    const ExitCode code = run(words, out, err);
    const std::string text = out.str() + err.str();
    const bool is_written =
        ::write(result, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(is_written ? static_cast<int>(code) : 99);
}

Outcome run_in_child(const std::vector<const char*>& words) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const Descriptor reader(ends[0]);
    Descriptor writer(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        run_and_exit(words, writer.get());
    }
    writer.reset();
    Outcome outcome{0, read_all(reader.get())};
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
}

TEST(Bench, BindMeasuresEveryAllocatorOnThisHost) {
    const Outcome outcome =
        run_in_child({"bench", "bind", "--protocol", "udp", "--family", "ipv4", "--occupancy", "0",
                      "--allocator", "kernel,berth,floor", "--repeats", "1", "--format", "json"});
    ASSERT_EQ(outcome.status, 0) << outcome.out;
    const auto object = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(object["schema"], "berth.bench/1");
    ASSERT_EQ(object["rows"].size(), 3U);
    for (const auto& row : object["rows"]) {
        EXPECT_GT(row["p50_ns"].get<double>(), 0) << row;
        EXPECT_GT(row["succeeded"].get<int>(), 0) << row;
        EXPECT_EQ(row["failed"], 0) << row;
    }
}

TEST(Bench, ConnectOpensConnectionsUntilItsTimeIsOver) {
    const Outcome outcome =
        run_in_child({"bench", "connect", "--destinations", "1", "--occupancy", "0", "--allocator",
                      "berth", "--repeats", "1", "--seconds", "0.1", "--format", "json"});
    ASSERT_TRUE(outcome.status == 0 || outcome.status == 4) << outcome.out;
    const std::size_t start = outcome.out.find('{');
    ASSERT_NE(start, std::string::npos) << outcome.out;
    const std::size_t end = outcome.out.rfind('}');
    const auto object = nlohmann::json::parse(outcome.out.substr(start, end - start + 1));
    ASSERT_EQ(object["rows"].size(), 2U) << object;
    EXPECT_GT(object["rows"][0]["p50_ns"].get<double>(), 0);
    EXPECT_GT(object["rows"][1]["succeeded"].get<int>(), 0);
    EXPECT_GT(object["rows"][1]["total_ms"].get<double>(), 0);
}

TEST(Bench, EchoComparesProgramsWithTheRawOne) {
    const Outcome outcome =
        run_in_child({"bench", "echo", "--program", "raw", "--engine", "poll", "--connections", "2",
                      "--repeats", "2", "--format", "json"});
    ASSERT_EQ(outcome.status, 0) << outcome.out;
    const auto object = nlohmann::json::parse(outcome.out);
    ASSERT_EQ(object["rows"].size(), 1U) << object;
    const auto& row = object["rows"][0];
    EXPECT_EQ(row["program"], "raw");
    EXPECT_EQ(row["engine"], "poll");
    EXPECT_EQ(row["connections"], 2);
    EXPECT_GT(row["cpu_ns_per_message"].get<double>(), 0);
    EXPECT_EQ(row["ratio_to_raw"], 1.0);
    EXPECT_GT(row["ratio_to_epoll"].get<double>(), 0);
}

}  // namespace
}  // namespace berth::cli
