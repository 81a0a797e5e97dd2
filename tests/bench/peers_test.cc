// SPDX-License-Identifier: Apache-2.0
// Each peer over each of its engines does each job, small, against blocking sockets of a thread.
#include "bench/harness/page_buffer.h"
#include "bench/programs/jobs.h"
#include "bench/programs/program.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ostream>
#include <thread>

namespace berth::bench {

void PrintTo(const Program& program, std::ostream* out) {
    *out << program.program << " over " << program.engine;
}

namespace {

using test::succeeded;

constexpr unsigned kMostSeconds = 60;

std::vector<Program> peers() {
    constexpr std::string_view kPeers[] = {"libevent", "libuv", "libev", "asio"};
    std::vector<Program> some;
    std::ranges::copy_if(programs(), std::back_inserter(some), [&](const Program& program) {
        return std::ranges::find(kPeers, program.program) != std::end(kPeers);
    });
    return some;
}

std::string name_of(const testing::TestParamInfo<Program>& info) {
    std::string name(info.param.program);
    name.append("_").append(info.param.engine);
    std::ranges::replace(name, '-', '_');
    return name;
}

void make_nonblocking(int fd) { ASSERT_EQ(::fcntl(fd, F_SETFL, O_NONBLOCK), 0); }

/// So that no thread waits for ever for a program that is silent.
void limit_waiting(int fd) {
    const timeval limit = {kMostSeconds / 2, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

Descriptor connected_to(int listener, int receive_buffer = 0) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer > 0) {
        ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    const Address address = test::local_of(listener);
    EXPECT_EQ(::connect(socket.get(), address.data(), address.size()), 0) << std::strerror(errno);
    // Not before: what is left of an io_uring may interrupt this thread, and a call that has a
    // limit is not restarted.
    limit_waiting(socket.get());
    return socket;
}

struct Pair {
    Descriptor ours;
    Descriptor programs;  // non-blocking
};

Pair connected_pair() {
    const Descriptor listener = test::listener(Address::loopback(Family::ipv4));
    Pair pair = {connected_to(listener.get()), {}};
    pair.programs.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    return pair;
}

Pair datagram_pair() {
    Pair pair;
    for (Descriptor* side : {&pair.ours, &pair.programs}) {
        side->reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        const Address any = Address::loopback(Family::ipv4);
        EXPECT_EQ(::bind(side->get(), any.data(), any.size()), 0);
    }
    const Address ours = test::local_of(pair.ours.get());
    const Address programs = test::local_of(pair.programs.get());
    EXPECT_EQ(::connect(pair.ours.get(), programs.data(), programs.size()), 0);
    EXPECT_EQ(::connect(pair.programs.get(), ours.data(), ours.size()), 0);
    limit_waiting(pair.ours.get());
    make_nonblocking(pair.programs.get());
    return pair;
}

std::vector<std::byte> stream_part(std::size_t stream, std::uint64_t offset, std::size_t size) {
    std::vector<std::byte> part(size);
    for (std::size_t i = 0; i < size; ++i) {
        part[i] = pattern()[pattern_phase(stream, offset + i)];
    }
    return part;
}

bool send_whole(int socket, std::span<const std::byte> data) {
    while (!data.empty()) {
        const ssize_t sent = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        data = data.subspan(static_cast<std::size_t>(sent));
    }
    return true;
}

std::vector<std::byte> receive_whole(int socket, std::size_t size) {
    std::vector<std::byte> data(size);
    const ssize_t received = ::recv(socket, data.data(), size, MSG_WAITALL);
    data.resize(static_cast<std::size_t>(std::max<ssize_t>(received, 0)));
    return data;
}

class Peer : public testing::TestWithParam<Program> {
protected:
    void SetUp() override {
        if (const Result<void> usable = GetParam().probe ? GetParam().probe() : Result<void>{};
            !usable) {
            GTEST_SKIP() << usable.error().message();
        }
        std::signal(SIGPIPE, SIG_IGN);
        ::alarm(kMostSeconds);
    }
    void TearDown() override { ::alarm(0); }
};

TEST_P(Peer, ReadsEveryStreamToItsEnd) {
    constexpr std::size_t kSizes[] = {500'000, 1, 70'001, 0, 65'536};
    std::vector<Descriptor> ours;
    std::vector<int> sockets;
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
        Pair pair = connected_pair();
        ours.push_back(std::move(pair.ours));
        sockets.push_back(pair.programs.release());
    }
    const PageBuffer buffer(65'536);
    std::thread server;
    TransferJob job{.sockets = sockets,
                    .buffer = buffer.bytes(),
                    .start =
                        [&] {
                            server = std::thread([&] {
                                for (std::size_t i = 0; i < std::size(kSizes); ++i) {
                                    send_whole(ours[i].get(), stream_part(i, 0, kSizes[i]));
                                    ours[i].reset();
                                }
                            });
                        },
                    .checks = std::vector<TransferJob::StreamCheck>(sockets.size())};
    EXPECT_TRUE(succeeded(GetParam().transfer(job)));
    server.join();
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
        EXPECT_EQ(job.checks[i].received_count, kSizes[i]);
        EXPECT_TRUE(job.checks[i].is_intact) << i;
        EXPECT_EQ(::fcntl(sockets[i], F_GETFD), -1) << "stream " << i << " is still open";
    }
}

TEST_P(Peer, StreamsThatArriveAtOnceAreNotMixed) {
    constexpr std::size_t kStreamCount = 8;
    constexpr std::size_t kSize = 400'000;
    std::vector<Descriptor> ours;
    std::vector<int> sockets;
    for (std::size_t i = 0; i < kStreamCount; ++i) {
        Pair pair = connected_pair();
        ours.push_back(std::move(pair.ours));
        sockets.push_back(pair.programs.release());
    }
    const PageBuffer buffer(16'384);
    std::vector<std::thread> servers;
    const auto send_stream = [&](std::size_t stream) {
        send_whole(ours[stream].get(), stream_part(stream, 0, kSize));
        ours[stream].reset();
    };
    TransferJob job{.sockets = sockets,
                    .buffer = buffer.bytes(),
                    .start =
                        [&] {
                            for (std::size_t i = 0; i < kStreamCount; ++i) {
                                servers.emplace_back(send_stream, i);
                            }
                        },
                    .checks = std::vector<TransferJob::StreamCheck>(kStreamCount)};
    EXPECT_TRUE(succeeded(GetParam().transfer(job)));
    std::ranges::for_each(servers, &std::thread::join);
    for (const TransferJob::StreamCheck& check : job.checks) {
        EXPECT_EQ(check.received_count, kSize);
        EXPECT_TRUE(check.is_intact);
    }
}

/// Descriptors may be as high as the hard limit says, for the time of a test.
class ManyDescriptors {
public:
    ManyDescriptors() {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        const rlimit raised = {before_.rlim_max, before_.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &raised);
    }
    ManyDescriptors(const ManyDescriptors&) = delete;
    ManyDescriptors& operator=(const ManyDescriptors&) = delete;
    ~ManyDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

private:
    rlimit before_{};
};

TEST_P(Peer, ReadsFromADescriptorBeyondAnFdSetOrSaysThatItCannot) {
    const ManyDescriptors many;
    Pair pair = connected_pair();
    const int socket = ::fcntl(pair.programs.get(), F_DUPFD_CLOEXEC, FD_SETSIZE);
    if (socket < 0) {
        GTEST_SKIP() << "no descriptor may be as high";
    }
    pair.programs.reset();
    const PageBuffer buffer(65'536);
    TransferJob job{.sockets = std::span(&socket, 1),
                    .buffer = buffer.bytes(),
                    .start =
                        [&] {
                            send_whole(pair.ours.get(), stream_part(0, 0, 500));
                            pair.ours.reset();
                        },
                    .checks = std::vector<TransferJob::StreamCheck>(1)};
    const Result<void> done = GetParam().transfer(job);
    if (done) {
        EXPECT_EQ(job.checks[0].received_count, 500U);
        return;
    }
    ::close(socket);
    EXPECT_EQ(done.error().code(), Errc::unsupported);
    EXPECT_NE(done.error().message().find("1,024 (FD_SETSIZE)"), std::string::npos)
        << done.error().message();
}

/// An echo server with the program's loop in this thread and the clients in another.
void serve(const Program& program, unsigned connection_count, int send_buffer,
           const std::function<void(int listener)>& clients) {
    const Descriptor listener = test::listener(Address::loopback(Family::ipv4));
    make_nonblocking(listener.get());
    if (send_buffer > 0) {
        ::setsockopt(listener.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
    }
    std::thread other([&] { clients(listener.get()); });
    EchoJob job{.listener = listener.get(), .connection_count = connection_count};
    EXPECT_TRUE(succeeded(program.echo(job)));
    other.join();
    EXPECT_NE(::fcntl(listener.get(), F_GETFD), -1) << "the listener is the job's";
}

TEST_P(Peer, SendsBackWhatComesOnEveryConnection) {
    serve(GetParam(), 5, 0, [](int listener) {
        std::vector<Descriptor> sockets;
        for (int i = 0; i < 5; ++i) {
            sockets.push_back(connected_to(listener));
        }
        for (std::uint64_t round = 0; round < 20; ++round) {
            for (std::size_t i = 0; i < sockets.size(); ++i) {
                ASSERT_TRUE(send_whole(sockets[i].get(), stream_part(i, round * 64, 64)));
            }
            for (std::size_t i = 0; i < sockets.size(); ++i) {
                EXPECT_EQ(receive_whole(sockets[i].get(), 64), stream_part(i, round * 64, 64));
            }
        }
    });
}

TEST_P(Peer, KeepsWhatASocketDoesNotTakeAndServesTheOthers) {
    // More than the program's send buffer and the client's receive buffer hold together, and less
    // than what the client can send without receiving.
    constexpr std::size_t kSize = 160'000;
    serve(GetParam(), 2, 16'384, [](int listener) {
        const Descriptor slow = connected_to(listener, 32'768);
        const Descriptor quick = connected_to(listener);
        ASSERT_TRUE(send_whole(slow.get(), stream_part(0, 0, kSize)));
        for (std::uint64_t round = 0; round < 5; ++round) {
            ASSERT_TRUE(send_whole(quick.get(), stream_part(1, round * 64, 64)));
            EXPECT_EQ(receive_whole(quick.get(), 64), stream_part(1, round * 64, 64));
        }
        EXPECT_EQ(receive_whole(slow.get(), kSize), stream_part(0, 0, kSize));
        ASSERT_TRUE(send_whole(slow.get(), stream_part(0, kSize, 64)));
        EXPECT_EQ(receive_whole(slow.get(), 64), stream_part(0, kSize, 64));
    });
}

TEST_P(Peer, AConnectionThatIsResetHasEndedToo) {
    serve(GetParam(), 3, 0, [](int listener) {
        for (int i = 0; i < 3; ++i) {
            const Descriptor socket = connected_to(listener);
            ASSERT_TRUE(send_whole(socket.get(), stream_part(0, 0, 64)));
            EXPECT_EQ(receive_whole(socket.get(), 64).size(), 64);
            ChurnJob::reset_on_close(socket.get());
        }
    });
}

TEST_P(Peer, ReturnsWhileOtherConnectionsAreOpen) {
    std::vector<Descriptor> open;
    serve(GetParam(), 1, 0, [&](int listener) {
        open.push_back(connected_to(listener));
        ASSERT_TRUE(send_whole(open.front().get(), stream_part(0, 0, 64)));
        EXPECT_EQ(receive_whole(open.front().get(), 64).size(), 64);
        static_cast<void>(connected_to(listener));
    });
}

TEST_P(Peer, ConnectsAsOftenAsAskedAndLeavesNothingBehind) {
    constexpr unsigned kCount = 50;
    const Descriptor listener = test::listener(Address::loopback(Family::ipv4));
    limit_waiting(listener.get());
    std::thread server;
    ChurnJob job{.destination = test::local_of(listener.get()),
                 .connection_count = kCount,
                 .parallel_count = 4,
                 .start = nullptr};
    unsigned reset_count = 0;
    job.start = [&] {
        server = std::thread([&] {
            for (unsigned i = 0; i < kCount; ++i) {
                const Descriptor socket(::accept(listener.get(), nullptr, nullptr));
                limit_waiting(socket.get());
                std::byte none;
                reset_count +=
                    ::recv(socket.get(), &none, 1, 0) < 0 && errno == ECONNRESET ? 1U : 0U;
            }
        });
    };
    EXPECT_TRUE(succeeded(GetParam().churn(job)));
    server.join();
    EXPECT_EQ(job.connected_count, kCount);
    EXPECT_EQ(job.failed_count, 0);
    EXPECT_EQ(reset_count, kCount);
}

TEST_P(Peer, CountsConnectionsThatAreRefused) {
    const Address any = Address::loopback(Family::ipv4);
    const Descriptor deaf = test::stranger(Protocol::tcp, any);
    ChurnJob job{.destination = test::local_of(deaf.get()),
                 .connection_count = 20,
                 .parallel_count = 3,
                 .start = [] {}};
    EXPECT_TRUE(succeeded(GetParam().churn(job)));
    EXPECT_EQ(job.connected_count, 0);
    EXPECT_EQ(job.failed_count, 20);
    EXPECT_EQ(job.last_errno, ECONNREFUSED);
}

TEST_P(Peer, SaysThatItCannotConnectWithAPortTable) {
    PortTable ports = test::new_table(Protocol::tcp, {.reconcile_at_start = false});
    ChurnJob job{
        .destination = {}, .ports = &ports, .start = [] { ADD_FAILURE() << "it must not begin"; }};
    const Result<void> result = GetParam().churn(job);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::unsupported);
}

class DatagramPeer : public testing::TestWithParam<std::tuple<Program, DatagramMode>> {
protected:
    static constexpr std::size_t kCount = 100;  // fits into a receive buffer
    static constexpr std::size_t kSize = 200;

    void SetUp() override {
        const Program& program = std::get<Program>(GetParam());
        if (const Result<void> usable = program.probe ? program.probe() : Result<void>{}; !usable) {
            GTEST_SKIP() << usable.error().message();
        }
        ::alarm(kMostSeconds);
    }
    void TearDown() override { ::alarm(0); }

    /// Where the program does not have the mode, it says so before it begins.
    void run(DatagramsJob& job) {
        job.mode = std::get<DatagramMode>(GetParam());
        if (job.mode == DatagramMode::segmented) {
            const int value = job.is_sender ? int{kSize} : 1;
            ASSERT_EQ(::setsockopt(job.socket, IPPROTO_UDP, job.is_sender ? UDP_SEGMENT : UDP_GRO,
                                   &value, sizeof(value)),
                      0);
        }
        bool has_begun = false;
        job.start = [&has_begun, start = std::move(job.start)] {
            has_begun = true;
            start();
        };
        const Result<void> result = std::get<Program>(GetParam()).datagrams(job);
        if (!result && result.error().code() == Errc::unsupported) {
            EXPECT_FALSE(has_begun);
            EXPECT_NE(job.mode, DatagramMode::single);
            return;
        }
        EXPECT_TRUE(succeeded(result));
    }
};

TEST_P(DatagramPeer, ReceivesEachInOrderUntilTheLast) {
    const Pair pair = datagram_pair();
    std::thread sender;
    DatagramsJob job{.socket = pair.programs.get(), .datagram_size = kSize, .start = [&] {
                         sender = std::thread([&] {
                             std::vector<std::byte> datagram(kSize);
                             for (std::uint64_t number = 0; number < kCount; ++number) {
                                 write_datagram(number, datagram);
                                 ::send(pair.ours.get(), datagram.data(), kSize, 0);
                             }
                             write_last_datagram(datagram);
                             ::send(pair.ours.get(), datagram.data(), kSize, 0);
                         });
                     }};
    run(job);
    if (!sender.joinable()) {
        return;
    }
    sender.join();
    EXPECT_EQ(job.received_count, kCount);
    EXPECT_TRUE(job.is_intact);
    EXPECT_NE(::fcntl(pair.programs.get(), F_GETFD), -1) << "the socket is the job's";
}

TEST_P(DatagramPeer, SendsEachInOrder) {
    const Pair pair = datagram_pair();
    std::thread receiver;
    DatagramsJob arrived{.datagram_size = kSize, .start = nullptr};
    DatagramsJob job{
        .socket = pair.programs.get(), .is_sender = true, .datagram_size = kSize, .start = nullptr};
    job.datagram_count = kCount;
    job.start = [&] {
        receiver = std::thread([&] {
            std::vector<std::byte> place(65'536);
            ssize_t size = 0;
            while (arrived.received_count < kCount &&
                   (size = ::recv(pair.ours.get(), place.data(), place.size(), 0)) > 0) {
                arrived.received(std::span(place).first(static_cast<std::size_t>(size)));
            }
        });
    };
    run(job);
    if (!receiver.joinable()) {
        return;
    }
    receiver.join();
    EXPECT_EQ(arrived.received_count, kCount);
    EXPECT_TRUE(arrived.is_intact);
}

TEST_P(Peer, IsWokenForWhatAnotherThreadPosts) {
    constexpr std::uint64_t kOneByOne = 50;
    constexpr std::uint64_t kAll = 2'000;
    std::vector<Posted> items(kAll);
    std::atomic<std::uint64_t> arrived_count = 0;
    std::thread poster;
    WakeJob job;
    job.start = [&](WakeJob::Post post, void* loop) {
        poster = std::thread([&, post, loop] {
            for (std::uint64_t number = 0; number < kAll; ++number) {
                items[number].number = number;
                post(loop, items[number]);
                // The first ones find a loop that sleeps, the others one that is busy.
                if (number < kOneByOne) {
                    arrived_count.wait(number);
                }
            }
        });
    };
    bool is_in_order = true;
    job.arrived = [&](const Posted& item) {
        is_in_order = is_in_order && item.number == arrived_count;
        ++arrived_count;
        arrived_count.notify_one();
        return arrived_count < kAll;
    };
    job.join = [&] { poster.join(); };
    EXPECT_TRUE(succeeded(GetParam().wake(job)));
    EXPECT_EQ(arrived_count, kAll);
    EXPECT_TRUE(is_in_order);
    EXPECT_FALSE(poster.joinable()) << "it did not join";
}

std::string name_with_mode(const testing::TestParamInfo<DatagramPeer::ParamType>& info) {
    constexpr std::string_view kModes[] = {"single", "batched", "segmented"};
    const auto& [program, mode] = info.param;
    return name_of({program, 0}).append("_").append(kModes[static_cast<std::size_t>(mode)]);
}

// Where no peer is installed there is nothing to test.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Peer);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DatagramPeer);

INSTANTIATE_TEST_SUITE_P(All, Peer, testing::ValuesIn(peers()), name_of);
INSTANTIATE_TEST_SUITE_P(All, DatagramPeer,
                         testing::Combine(testing::ValuesIn(peers()),
                                          testing::Values(DatagramMode::single,
                                                          DatagramMode::batched,
                                                          DatagramMode::segmented)),
                         name_with_mode);

}  // namespace
}  // namespace berth::bench
