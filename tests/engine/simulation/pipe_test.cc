// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>
#include <sys/uio.h>

namespace berth::internal {
namespace {

using namespace test;

ssize_t write_text(int fd, std::string text, off_t offset = -1) {
    const iovec part{text.data(), text.size()};
    return calls().pwritev2(fd, &part, 1, offset, 0);
}
std::string read_text(int fd, std::size_t size = 100'000, off_t offset = -1) {
    std::string text(size, '\0');
    const iovec part{text.data(), text.size()};
    const ssize_t count = calls().preadv2(fd, &part, 1, offset, 0);
    return count < 0 ? ::strerrorname_np(errno) : text.substr(0, static_cast<std::size_t>(count));
}

TEST(SimulatedPipe, CarriesBytesUntilTheWriterCloses) {
    Simulation simulation;
    const auto [reader, writer] = simulation.make_pipe();
    EXPECT_EQ(read_text(reader), "EAGAIN");
    EXPECT_EQ(write_text(writer, "hello "), 6);
    EXPECT_EQ(write_text(writer, "world"), 5);
    EXPECT_EQ(poll_now(reader), POLLIN);
    EXPECT_EQ(read_text(reader, 7), "hello w");
    close_all({writer});
    EXPECT_EQ(poll_now(reader), POLLIN | POLLHUP);
    EXPECT_EQ(read_text(reader), "orld");
    EXPECT_EQ(read_text(reader), "");
    EXPECT_EQ(poll_now(reader), POLLHUP);
}

TEST(SimulatedPipe, AWriterWithoutAReaderHasABrokenPipe) {
    Simulation simulation;
    const auto [reader, writer] = simulation.make_pipe();
    close_all({reader});
    EXPECT_EQ(poll_now(writer), POLLOUT | POLLERR);
    EXPECT_FAILS(EPIPE, write_text(writer, "x"));
    EXPECT_EQ(simulation.broken_pipe_count(), 1U);
}

TEST(SimulatedPipe, HoldsSixteenPages) {
    Simulation simulation;
    const auto [reader, writer] = simulation.make_pipe();
    EXPECT_EQ(write_text(writer, std::string(100'000, 'x')), 65'536);
    EXPECT_EQ(poll_now(writer), 0);
    EXPECT_FAILS(EAGAIN, write_text(writer, "x"));
    // A page is free when all of it has been read.
    EXPECT_EQ(read_text(reader, 4'095).size(), 4'095U);
    EXPECT_FAILS(EAGAIN, write_text(writer, "x"));
    EXPECT_EQ(read_text(reader, 1), "x");
    EXPECT_EQ(poll_now(writer), POLLOUT);
    EXPECT_EQ(write_text(writer, std::string(5'000, 'y')), 4'096);
}

TEST(SimulatedPipe, SmallWritesShareAPage) {
    Simulation simulation;
    const auto [reader, writer] = simulation.make_pipe();
    int count = 0;
    while (write_text(writer, std::string(1'500, 'x')) == 1'500) ++count;
    EXPECT_EQ(count, 32);
    EXPECT_EQ(read_text(reader).size(), 48'000U);
}

TEST(SimulatedPipe, EndsWorkOneWayAndAreNoSockets) {
    Simulation simulation;
    const auto [reader, writer] = simulation.make_pipe();
    EXPECT_EQ(read_text(writer), "EBADF");
    EXPECT_FAILS(EBADF, write_text(reader, "x"));
    EXPECT_FAILS(ESPIPE, write_text(writer, "x", 0));
    EXPECT_FAILS(ENOTSOCK, send_text(writer, "x"));
    EXPECT_EQ(receive(reader), "ENOTSOCK");
}

TEST(SimulatedWakeup, CountsAndIsReadableWhileItIsNotZero) {
    Simulation simulation;
    const int wakeup = simulation.make_wakeup();
    std::uint64_t value = 0;
    iovec part{&value, sizeof(value)};
    EXPECT_FAILS(EAGAIN, calls().preadv2(wakeup, &part, 1, -1, 0));
    EXPECT_EQ(poll_now(wakeup), POLLOUT);
    value = 3;
    EXPECT_EQ(calls().pwritev2(wakeup, &part, 1, -1, 0), 8);
    EXPECT_EQ(calls().pwritev2(wakeup, &part, 1, -1, 0), 8);
    EXPECT_EQ(poll_now(wakeup), POLLIN | POLLOUT);
    EXPECT_EQ(calls().preadv2(wakeup, &part, 1, -1, 0), 8);
    EXPECT_EQ(value, 6U);
    value = ~std::uint64_t{0};
    EXPECT_FAILS(EINVAL, calls().pwritev2(wakeup, &part, 1, -1, 0));
    --value;
    EXPECT_EQ(calls().pwritev2(wakeup, &part, 1, -1, 0), 8);
    EXPECT_EQ(poll_now(wakeup), POLLIN);
    EXPECT_FAILS(EAGAIN, calls().pwritev2(wakeup, &part, 1, -1, 0));
    part.iov_len = 7;
    EXPECT_FAILS(EINVAL, calls().preadv2(wakeup, &part, 1, -1, 0));
}

TEST(SimulatedFile, HasAPositionAndOffsets) {
    Simulation simulation;
    const int file = simulation.make_file("0123456789");
    EXPECT_EQ(read_text(file, 4), "0123");
    EXPECT_EQ(read_text(file, 4, 8), "89");
    EXPECT_EQ(read_text(file, 4), "4567");
    EXPECT_EQ(read_text(file, 4, 100), "");
    EXPECT_EQ(write_text(file, "ab", 1), 2);
    EXPECT_EQ(write_text(file, "XYZ"), 3);
    EXPECT_EQ(write_text(file, "!", 13), 1);
    EXPECT_EQ(simulation.file_contents(file), std::string("0ab34567XYZ\0\0!", 14));
    EXPECT_EQ(poll_now(file), POLLIN | POLLOUT);
}

TEST(SimulatedSplice, MovesBetweenPipesSocketsAndFiles) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    const auto [reader, writer] = simulation.make_pipe();
    send_text(pair.client, "through a pipe");
    EXPECT_EQ(calls().splice(pair.server, nullptr, writer, nullptr, 100, 0), 14);
    EXPECT_FAILS(EAGAIN, calls().splice(pair.server, nullptr, writer, nullptr, 100, 0));
    EXPECT_EQ(calls().splice(reader, nullptr, pair.server, nullptr, 7, 0), 7);
    EXPECT_EQ(receive(pair.client), "through");
    const int file = simulation.make_file("....................");
    off_t offset = 2;
    EXPECT_EQ(calls().splice(reader, nullptr, file, &offset, 100, 0), 7);
    EXPECT_EQ(offset, 9);
    EXPECT_EQ(simulation.file_contents(file), ".. a pipe...........");
    offset = 3;
    EXPECT_EQ(calls().splice(file, &offset, writer, nullptr, 6, 0), 6);
    EXPECT_EQ(read_text(reader), "a pipe");
    EXPECT_FAILS(EINVAL, calls().splice(file, nullptr, pair.client, nullptr, 1, 0));
    EXPECT_FAILS(ESPIPE, calls().splice(reader, &offset, file, nullptr, 1, 0));
    EXPECT_FAILS(EBADF, calls().splice(reader, nullptr, file + 100, nullptr, 1, 0));
    close_all({writer});
    EXPECT_EQ(calls().splice(reader, nullptr, file, nullptr, 10, 0), 0);
}

TEST(SimulatedSplice, LeavesInThePipeWhatTheSocketDoesNotTake) {
    Simulation simulation({.send_buffer = 5'000, .receive_buffer = 5'000});
    const TcpPair pair = tcp_pair();
    const auto [reader, writer] = simulation.make_pipe();
    EXPECT_EQ(write_text(writer, std::string(6'000, 'x')), 6'000);
    EXPECT_EQ(calls().splice(reader, nullptr, pair.client, nullptr, 6'000, 0), 2'500);
    EXPECT_EQ(calls().splice(reader, nullptr, pair.client, nullptr, 6'000, 0), 2'500);
    EXPECT_FAILS(EAGAIN, calls().splice(reader, nullptr, pair.client, nullptr, 6'000, 0));
    EXPECT_EQ(read_text(reader).size(), 1'000U);
}

TEST(SimulatedSendfile, MovesThePositionOverWhatWasSent) {
    Simulation simulation({.send_buffer = 5'000, .receive_buffer = 5'000});
    const TcpPair pair = tcp_pair();
    const int file = simulation.make_file(std::string(9'000, 'f'));
    EXPECT_EQ(calls().sendfile(pair.client, file, nullptr, 9'000), 2'500);
    EXPECT_EQ(read_text(file, 10'000).size(), 6'500U);
    off_t offset = 8'999;
    EXPECT_EQ(calls().sendfile(pair.client, file, &offset, 9'000), 1);
    EXPECT_EQ(offset, 9'000);
    EXPECT_EQ(calls().sendfile(pair.client, file, &offset, 9'000), 0);
    EXPECT_FAILS(EINVAL, calls().sendfile(pair.client, pair.server, nullptr, 1));
    EXPECT_FAILS(EBADF, calls().sendfile(pair.client, file + 100, nullptr, 1));
}

}  // namespace
}  // namespace berth::internal
