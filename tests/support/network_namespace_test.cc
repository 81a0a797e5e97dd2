// SPDX-License-Identifier: Apache-2.0
#include "tests/support/network_namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

namespace berth::test {
namespace {

using testing::HasSubstr;

// Where no namespace can be made, there is nothing to test.
class NetworkNamespace : public testing::Test {
protected:
    void SetUp() override {
        in_network_namespace([] {});
    }
};

ino_t network_namespace_number() {
    struct stat status{};
    EXPECT_EQ(::stat("/proc/self/ns/net", &status), 0);
    return status.st_ino;
}

constexpr const char* kInnerVariable = "BERTH_INNER_BODY";

struct InnerRun {
    int exit_code = -1;
    std::string output;
};

// Runs this program again with only NetworkNamespace.InnerBody, whose body does `kind`. In this
// process its failure would be a failure of the whole run.
InnerRun run_inner(const char* kind) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], STDOUT_FILENO);
        ::dup2(ends[1], STDERR_FILENO);
        ::close(ends[0]);
        ::close(ends[1]);
        ::setenv(kInnerVariable, kind, 1);
        ::execl("/proc/self/exe", "tests", "--gtest_filter=NetworkNamespace.InnerBody",
                static_cast<char*>(nullptr));
        ::_exit(127);
    }
    ::close(ends[1]);
    InnerRun run;
    char buffer[4096];
    for (ssize_t size = 0; (size = ::read(ends[0], buffer, sizeof(buffer))) > 0;) {
        run.output.append(buffer, static_cast<std::size_t>(size));
    }
    ::close(ends[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return run;
}

TEST_F(NetworkNamespace, IsNotTheHosts) {
    const ino_t outside = network_namespace_number();
    in_network_namespace([outside] { EXPECT_NE(network_namespace_number(), outside); });
    EXPECT_EQ(network_namespace_number(), outside);
}

TEST_F(NetworkNamespace, CarriesTrafficOnLoopbackInBothFamilies) {
    in_network_namespace([] {
        for (const int domain : {AF_INET, AF_INET6}) {
            const int socket = ::socket(domain, SOCK_DGRAM, 0);
            sockaddr_in6 v6{};
            v6.sin6_family = AF_INET6;
            v6.sin6_addr = in6addr_loopback;
            sockaddr_in v4{};
            v4.sin_family = AF_INET;
            v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            auto* address = domain == AF_INET ? reinterpret_cast<sockaddr*>(&v4)
                                              : reinterpret_cast<sockaddr*>(&v6);
            socklen_t size = domain == AF_INET ? sizeof(v4) : sizeof(v6);
            ASSERT_EQ(::bind(socket, address, size), 0);
            ASSERT_EQ(::getsockname(socket, address, &size), 0);
            ASSERT_EQ(::sendto(socket, "x", 1, 0, address, size), 1);
            char byte = 0;
            EXPECT_EQ(::recv(socket, &byte, 1, MSG_DONTWAIT), 1);
            ::close(socket);
        }
    });
}

TEST_F(NetworkNamespace, LimitsDescriptors) {
    in_network_namespace({.descriptor_limit = 77}, [] {
        rlimit limit{};
        ::getrlimit(RLIMIT_NOFILE, &limit);
        EXPECT_EQ(limit.rlim_cur, 77U);
    });
}

TEST_F(NetworkNamespace, BodyWithoutPrivilegesCannotBindLowPorts) {
    in_network_namespace({.drop_privileges = true}, [] {
        const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(80);
        EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), -1);
        EXPECT_EQ(errno, EACCES);
        ::close(socket);
    });
}

TEST_F(NetworkNamespace, BodyMayStartThreads) {
    std::thread([] {}).join();
    in_network_namespace([] {
        int value = 0;
        std::thread([&value] { value = 1; }).join();
        EXPECT_EQ(value, 1);
    });
}

TEST_F(NetworkNamespace, CrashOfTheBodyFailsTheTest) {
    EXPECT_FATAL_FAILURE(in_network_namespace([] { ::raise(SIGKILL); }), "signal 9");
}

TEST_F(NetworkNamespace, BodyThatHangsIsKilledWithWhatItStarted) {
    static int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    EXPECT_FATAL_FAILURE(in_network_namespace({.timeout_seconds = 1},
                                              [] {
                                                  if (::fork() >= 0) {
                                                      ::pause();
                                                  }
                                              }),
                         "longer than 1 s");
    // Once nobody holds the writing end any more, the reading one is at its end.
    ::close(pipe_ends[1]);
    char byte = 0;
    EXPECT_EQ(::read(pipe_ends[0], &byte, 1), 0);
    ::close(pipe_ends[0]);
}

TEST_F(NetworkNamespace, ImpossibleSettingFailsTheTest) {
    EXPECT_FATAL_FAILURE(in_network_namespace({.range = {200, 100}}, [] {}),
                         "ip_local_port_range: Invalid argument");
}

// Does nothing unless run_inner() started this program.
TEST_F(NetworkNamespace, InnerBody) {
    const char* variable = std::getenv(kInnerVariable);
    const std::string kind = variable != nullptr ? variable : "pass";
    in_network_namespace([&kind] {
        EXPECT_NE(kind, "expect");
        ASSERT_NE(kind, "assert");
        if (kind == "throw") {
            throw std::runtime_error("thrown by the body");
        }
        if (kind == "skip") {
            GTEST_SKIP() << "skipped by the body";
        }
    });
}

TEST_F(NetworkNamespace, FailuresOfTheBodyReachTheTestProgram) {
    for (const char* kind : {"expect", "assert"}) {
        const InnerRun run = run_inner(kind);
        EXPECT_EQ(run.exit_code, 1) << run.output;
        EXPECT_THAT(run.output, HasSubstr("kind"));
        EXPECT_THAT(run.output, HasSubstr("failed in its network namespace"));
    }
    EXPECT_EQ(run_inner("pass").exit_code, 0);
}

TEST_F(NetworkNamespace, ExceptionsOfTheBodyReachTheTestProgram) {
    const InnerRun run = run_inner("throw");
    EXPECT_EQ(run.exit_code, 1) << run.output;
    EXPECT_THAT(run.output, HasSubstr("thrown by the body"));
}

TEST_F(NetworkNamespace, SkipInTheBodySkipsTheTest) {
    const InnerRun run = run_inner("skip");
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr("skipped by the body"));
    EXPECT_THAT(run.output, HasSubstr("1 test, listed below"));
}

}  // namespace
}  // namespace berth::test
