// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fault_injection.h"

#include <berth/descriptor.h>

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

namespace berth::test {
namespace {

using internal::calls;

int bind_to(const Descriptor& socket, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    return calls().bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

Descriptor udp() { return Descriptor(calls().socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

TEST(FaultPlan, FailsAsOftenAsAskedThenLetsTheKernelAnswer) {
    FaultPlan faults;
    faults.fail(Call::bind, EADDRINUSE, 2);
    const Descriptor socket = udp();
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(bind_to(socket, 0), -1);
        EXPECT_EQ(errno, EADDRINUSE);
    }
    EXPECT_EQ(bind_to(socket, 0), 0);
    EXPECT_EQ(faults.call_count(Call::bind), 3U);
    EXPECT_EQ(faults.failed_count(Call::bind), 2U);
    EXPECT_EQ(faults.call_count(Call::socket), 1U);
}

TEST(FaultPlan, RulesFollowEachOther) {
    FaultPlan faults;
    faults.fail(Call::bind, EACCES, 1).fail(Call::bind, EINTR);
    const Descriptor socket = udp();
    EXPECT_EQ(bind_to(socket, 0), -1);
    EXPECT_EQ(errno, EACCES);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(bind_to(socket, 0), -1);
        EXPECT_EQ(errno, EINTR);
    }
}

TEST(FaultPlan, PredicateSeesThePort) {
    FaultPlan faults;
    faults.fail_if(Call::bind, EADDRINUSE,
                   [](const CallDetails& call) { return call.port() == 4711; });
    const Descriptor socket = udp();
    EXPECT_EQ(bind_to(socket, 4711), -1);
    EXPECT_EQ(errno, EADDRINUSE);
    EXPECT_EQ(bind_to(socket, 0), 0);
}

TEST(FaultPlan, PredicateSeesTheOption) {
    FaultPlan faults;
    faults.fail_if(Call::setsockopt, ENOPROTOOPT,
                   [](const CallDetails& call) { return call.option == SO_REUSEPORT; });
    const Descriptor socket = udp();
    const int on = 1;
    EXPECT_EQ(calls().setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), -1);
    EXPECT_EQ(errno, ENOPROTOOPT);
    EXPECT_EQ(calls().setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
}

TEST(FaultPlan, LeavesNetlinkAloneUnlessToldOtherwise) {
    FaultPlan faults;
    faults.fail(Call::socket, EMFILE).fail(Call::socket, EPERM, 1, Target::netlink);
    EXPECT_FALSE(udp().is_open());
    EXPECT_EQ(calls().socket(AF_NETLINK, SOCK_DGRAM, 0), -1);
    EXPECT_EQ(errno, EPERM);
    const Descriptor netlink(calls().socket(AF_NETLINK, SOCK_DGRAM, 0));
    EXPECT_TRUE(netlink.is_open());
    EXPECT_EQ(faults.call_count(Call::socket), 1U);
    EXPECT_EQ(faults.call_count(Call::socket, Target::netlink), 2U);
}

TEST(FaultPlan, TakesTheKernelsCallsBackAtItsEnd) {
    {
        const FaultPlan faults;
    }
    EXPECT_EQ(&calls(), &internal::kernel_calls());
}

TEST(FaultPlan, CountsFromManyThreads) {
    constexpr unsigned kThreads = 4;
    constexpr unsigned kCalls = 1000;
    FaultPlan faults;
    faults.fail(Call::socket, EMFILE, kThreads * kCalls / 2);
    std::atomic<unsigned> failures{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&failures] {
            for (unsigned call = 0; call < kCalls; ++call) {
                failures += udp().is_open() ? 0 : 1;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(failures, kThreads * kCalls / 2);
    EXPECT_EQ(faults.call_count(Call::socket), kThreads * kCalls);
}

}  // namespace
}  // namespace berth::test
