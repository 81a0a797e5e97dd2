// SPDX-License-Identifier: Apache-2.0

// What does not depend on the machine: system calls and allocations of an echo server for each
// message, counted from outside.
//
//   ┌ test ┐ fork ┌ server: berth's echo, its allocations counted into shared memory ┐
//   │      │ fork ┌ client: rounds of one message on each connection ┐
//   │      │ counts the server's system calls from `go` until `done`

#include "bench/harness/allocation_count.h"
#include "bench/harness/process.h"
#include "bench/harness/system_call_count.h"
#include "bench/programs/berth_jobs.h"
#include "tests/conformance/engine_test.h"

#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <vector>

namespace berth::test {
namespace {

using namespace std::chrono_literals;

struct CostCase {
    EngineKind engine;
    unsigned connections;
    double most_calls;  // for each message
};

struct Shared {
    std::uint64_t allocation_count;
};

class EchoCost : public testing::TestWithParam<CostCase> {
protected:
    static constexpr unsigned kWarmUpRounds = 20;
    static constexpr unsigned kRounds = 50;
    static constexpr std::size_t kSize = 64;

    void SetUp() override {
        const Result<Loop> loop = Loop::create({.engine = GetParam().engine});
        if (!loop && loop.error().code() == Errc::unsupported) {
            GTEST_SKIP() << loop.error().message();
        }
        rlimit limit{};
        ::getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_cur < GetParam().connections + 100) {
            GTEST_SKIP() << "the limit of open files is too low (ulimit -n)";
        }
        void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        shared_ = static_cast<Shared*>(memory);
        ASSERT_EQ(::pipe(go_.data()), 0);
        ASSERT_EQ(::pipe(done_.data()), 0);
    }
    void TearDown() override {
        for (const pid_t process : processes_) {
            bench::end_helper(process);
        }
    }

    template <class Body>
    pid_t fork_process(Body body) {
        const pid_t process = bench::fork_helper().value();
        if (process == 0) {
            body();
            ::_exit(0);
        }
        processes_.push_back(process);
        return process;
    }

    static Endpoint address_of(int socket) {
        sockaddr_storage storage{};
        socklen_t size = sizeof storage;
        auto* address = reinterpret_cast<sockaddr*>(&storage);
        ::getsockname(socket, address, &size);
        return Endpoint::from(address, size).value();
    }

    // The server is stopped until all messages of a round are there: what it needs for so many
    // connections then does not depend on who runs when.
    static void run_round(const std::vector<int>& sockets, pid_t server) {
        const bool may_stop =
            bench::system_call_counting() == bench::SystemCallCounting::tracepoint;
        std::array<std::byte, kSize> message{};
        if (may_stop) {
            ::kill(server, SIGSTOP);
        }
        for (const int socket : sockets) {
            if (::send(socket, message.data(), kSize, MSG_NOSIGNAL) != kSize) {
                ::_exit(1);
            }
        }
        if (may_stop) {
            ::kill(server, SIGCONT);
        }
        for (const int socket : sockets) {
            if (::recv(socket, message.data(), kSize, MSG_WAITALL) != kSize) {
                ::_exit(2);
            }
        }
    }

    void run_client(const Endpoint& server, pid_t server_process) const {
        std::vector<int> sockets;
        for (unsigned i = 0; i < GetParam().connections; ++i) {
            const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
            if (::connect(socket, server.data(), server.size()) != 0) {
                ::_exit(3);
            }
            sockets.push_back(socket);
        }
        char byte = 0;
        for (unsigned round = 0; round < kWarmUpRounds; ++round) {
            run_round(sockets, server_process);
        }
        [[maybe_unused]] ssize_t moved = ::write(done_[1], "w", 1);
        moved = ::read(go_[0], &byte, 1);
        for (unsigned round = 0; round < kRounds; ++round) {
            run_round(sockets, server_process);
        }
        moved = ::write(done_[1], "d", 1);
        moved = ::read(go_[0], &byte, 1);
    }

    Shared* shared_ = nullptr;
    std::array<int, 2> go_{};
    std::array<int, 2> done_{};
    std::vector<pid_t> processes_;
};

TEST_P(EchoCost, StaysWithinItsSystemCallsAndAllocatesNothing) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const Endpoint any_port = Address::loopback(Family::ipv4);
    ASSERT_EQ(::bind(listener, any_port.data(), any_port.size()), 0);
    ASSERT_EQ(::listen(listener, 4096), 0);
    const pid_t server = fork_process([&] {
        bench::count_allocations_into(&shared_->allocation_count);
        bench::EchoJob job{.listener = listener, .connection_count = GetParam().connections};
        static_cast<void>(bench::berth_echo(job, GetParam().engine));
    });
    fork_process([&] { run_client(address_of(listener), server); });
    char byte = 0;
    ASSERT_EQ(::read(done_[0], &byte, 1), 1);
    const std::uint64_t allocations_before = shared_->allocation_count;
    const std::optional<std::uint64_t> calls = bench::count_system_calls(
        server, done_[0], 20s, [&] { ASSERT_EQ(::write(go_[1], "g", 1), 1); });
    if (!calls) {
        GTEST_SKIP() << "this host lets nobody count system calls";
    }
    const double messages = double{kRounds} * GetParam().connections;
    EXPECT_LE(static_cast<double>(*calls) / messages, GetParam().most_calls);
    RecordProperty("system_calls_per_message",
                   std::to_string(static_cast<double>(*calls) / messages));
    if (bench::counts_allocations()) {
        // Nothing for a message; a list that is fuller than ever may double its room.
        EXPECT_LT(shared_->allocation_count - allocations_before, 5U);
    }
    ::close(listener);
}

INSTANTIATE_TEST_SUITE_P(Of, EchoCost,
                         testing::Values(CostCase{EngineKind::select, 100, 2.1},
                                         CostCase{EngineKind::poll, 100, 2.1},
                                         CostCase{EngineKind::epoll, 100, 2.1},
                                         CostCase{EngineKind::io_uring, 100, 0.3},
                                         CostCase{EngineKind::io_uring, 1000, 0.05}),
                         [](const testing::TestParamInfo<CostCase>& parameter) {
                             return std::string(to_string(parameter.param.engine)) + "With" +
                                    std::to_string(parameter.param.connections) + "Connections";
                         });

}  // namespace
}  // namespace berth::test
