// SPDX-License-Identifier: Apache-2.0

// Connecting, files, pipes and splicing: what is one request, or a few, for each operation.

#include "tests/engine/io_uring/engine_driver.h"

#include <sys/socket.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace berth::internal {
namespace {

using Connect = Counted<ConnectOperation>;
using Read = Counted<ReadOperation>;
using Write = Counted<WriteOperation>;
using Splice = Counted<SpliceOperation>;

class IoUringRequests : public testing::Test {
protected:
    Driver driver_;
};

TEST_F(IoUringRequests, Connects) {
    const Descriptor listener = tcp_listener();
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SlotHandle slot = driver_.attach(socket.get(), DescriptorKind::stream);
    Connect connect(driver_);
    connect.remote = local_endpoint(listener.get());
    Counted<SendOperation> send(driver_);
    send.set(bytes_of("hello"));
    driver_.submit(connect, slot);
    driver_.submit(send, slot);
    ASSERT_TRUE(driver_.run_until(send));
    EXPECT_TRUE(connect.has_completed());
    EXPECT_EQ(connect.result, 0);
    EXPECT_EQ(send.result, 5);
}

TEST_F(IoUringRequests, ARefusedConnectIsAnError) {
    Endpoint nobody;
    {
        const Descriptor listener = tcp_listener();
        nobody = local_endpoint(listener.get());
    }
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SlotHandle slot = driver_.attach(socket.get(), DescriptorKind::stream);
    Connect connect(driver_);
    connect.remote = nobody;
    driver_.submit(connect, slot);
    ASSERT_TRUE(driver_.run_until(connect));
    EXPECT_EQ(connect.result, -ECONNREFUSED);
}

TEST_F(IoUringRequests, AConnectThatHasStartedElsewhereIsWaitedFor) {
    for (const bool is_refused : {false, true}) {
        Descriptor listener = tcp_listener();
        Connect connect(driver_);
        connect.remote = local_endpoint(listener.get());
        if (is_refused) {
            listener.reset();
        }
        const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        ASSERT_EQ(::connect(socket.get(), connect.remote.data(), connect.remote.size()), -1);
        ASSERT_EQ(errno, EINPROGRESS);
        connect.has_started = true;
        const SlotHandle slot = driver_.attach(socket.get(), DescriptorKind::stream);
        driver_.submit(connect, slot);
        ASSERT_TRUE(driver_.run_until(connect));
        EXPECT_EQ(connect.result, is_refused ? -ECONNREFUSED : 0);
        driver_.detach(slot, Detach::keep);
    }
}

// A backlog of one that is full: the kernel drops what comes, and the connect waits.
TEST_F(IoUringRequests, AConnectUnderWayIsCancelled) {
    const Descriptor listener = tcp_listener();
    ASSERT_EQ(::listen(listener.get(), 0), 0);
    const Endpoint to = local_endpoint(listener.get());
    const Descriptor first(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(first.get(), to.data(), to.size()), 0);
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SlotHandle slot = driver_.attach(socket.get(), DescriptorKind::stream);
    Connect connect(driver_);
    connect.remote = to;
    driver_.submit(connect, slot);
    driver_.turn();
    ASSERT_FALSE(connect.has_completed());
    driver_.cancel(connect, -ETIMEDOUT);
    ASSERT_TRUE(driver_.run_until(connect));
    EXPECT_EQ(connect.result, -ETIMEDOUT);
}

TEST_F(IoUringRequests, ReadsAndWritesPipes) {
    for (const int flags : {0, O_NONBLOCK}) {
        const Pipe pipe = make_pipe(flags);
        const SlotHandle out = driver_.attach(pipe.out.get(), DescriptorKind::other);
        const SlotHandle in = driver_.attach(pipe.in.get(), DescriptorKind::other);
        std::array<std::byte, 100'000> buffer{};
        const std::vector<std::byte> data = pattern(0, 100'000);
        Read read(driver_);
        Write write(driver_);
        std::size_t read_count = 0;
        std::size_t written_count = 0;
        read.then = [&](Read& done) {
            ASSERT_GT(done.result, 0);
            read_count += done.count();
            done.buffer = std::span(buffer).subspan(read_count);
            if (read_count < data.size()) {
                driver_.submit(done, out);
            }
        };
        write.then = [&](Write& done) {
            ASSERT_GT(done.result, 0);
            written_count += done.count();
            done.buffer = std::span(data).subspan(written_count);
            if (written_count < data.size()) {
                driver_.submit(done, in);
            }
        };
        read.buffer = buffer;
        driver_.submit(read, out);
        driver_.turn();
        EXPECT_EQ(read_count, 0U);
        write.buffer = data;
        driver_.submit(write, in);
        ASSERT_TRUE(driver_.run_until([&] { return read_count == data.size(); }));
        EXPECT_TRUE(is_pattern(buffer, 0));
        EXPECT_EQ(::fcntl(pipe.out.get(), F_GETFL) & O_NONBLOCK, flags);
        driver_.detach(out, Detach::keep);
        driver_.detach(in, Detach::keep);
    }
}

TEST_F(IoUringRequests, TheEndOfAPipeIsAnEmptyRead) {
    Pipe pipe = make_pipe();
    const SlotHandle out = driver_.attach(pipe.out.get(), DescriptorKind::other);
    std::array<std::byte, 10> buffer{};
    Read read(driver_);
    read.buffer = buffer;
    driver_.submit(read, out);
    driver_.turn();
    pipe.in.reset();
    ASSERT_TRUE(driver_.run_until(read));
    EXPECT_EQ(read.result, 0);
}

TEST_F(IoUringRequests, AReadOfAPipeIsCancelled) {
    const Pipe pipe = make_pipe();
    const SlotHandle out = driver_.attach(pipe.out.get(), DescriptorKind::other);
    std::array<std::byte, 10> buffer{};
    Read read(driver_);
    read.buffer = buffer;
    driver_.submit(read, out);
    driver_.turn();
    driver_.cancel(read);
    ASSERT_TRUE(driver_.run_until(read));
    EXPECT_EQ(read.result, -ECANCELED);
}

TEST_F(IoUringRequests, ReadsAndWritesFilesAtAnOffset) {
    const Descriptor file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.is_open()) {
        GTEST_SKIP() << "no O_TMPFILE on /tmp";
    }
    const SlotHandle slot = driver_.attach(file.get(), DescriptorKind::other);
    const std::vector<std::byte> data = pattern(0, 10'000);
    Write write(driver_);
    write.buffer = data;
    write.offset = 500;
    driver_.submit(write, slot);
    ASSERT_TRUE(driver_.run_until(write));
    EXPECT_EQ(write.result, 10'000);
    std::array<std::byte, 200> buffer{};
    Read read(driver_);
    read.buffer = buffer;
    read.offset = 600;
    driver_.submit(read, slot);
    ASSERT_TRUE(driver_.run_until(read));
    EXPECT_EQ(read.result, 200);
    EXPECT_TRUE(is_pattern(buffer, 100));
}

TEST_F(IoUringRequests, SplicesFromASocketIntoAPipeAndOn) {
    const SocketPair from = tcp_pair();
    const SocketPair to = tcp_pair();
    const Pipe pipe = make_pipe();
    const SlotHandle source = driver_.attach(from.near.get(), DescriptorKind::stream);
    const SlotHandle sink = driver_.attach(to.near.get(), DescriptorKind::stream);
    constexpr std::size_t kSize = 2 << 20;
    Splice fill(driver_);
    fill.pipe = pipe.in.get();
    fill.size = 64 * 1024;
    Splice drain(driver_);
    drain.pipe = pipe.out.get();
    drain.into_socket = true;
    drain.size = 64 * 1024;
    std::size_t filled = 0;
    std::size_t drained = 0;
    fill.then = [&](Splice& done) {
        ASSERT_GE(done.result, 0);
        filled += done.count();
        if (done.result > 0) {
            driver_.submit(done, source);
        }
    };
    drain.then = [&](Splice& done) {
        ASSERT_GT(done.result, 0);
        drained += done.count();
        if (drained < kSize) {
            driver_.submit(done, sink);
        }
    };
    driver_.submit(fill, source);
    driver_.submit(drain, sink);
    driver_.turn();
    std::vector<std::byte> got;
    std::thread writer([&] {
        write_all(from.far.get(), pattern(0, kSize));
        ::shutdown(from.far.get(), SHUT_WR);
    });
    std::thread reader([&] { got = read_all(to.far.get(), kSize); });
    EXPECT_TRUE(driver_.run_until([&] { return drained == kSize && !fill.is_pending(); }));
    writer.join();
    reader.join();
    EXPECT_EQ(filled, kSize);
    EXPECT_TRUE(is_pattern(got, 0));
}

TEST_F(IoUringRequests, ASpliceTakesFirstWhatWasReceivedAhead) {
    SocketPair pair = unix_pair();
    const Pipe pipe = make_pipe();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    Counted<ReceiveLentOperation> receive(driver_);
    driver_.submit(receive, slot);
    write_all(pair.far.get(), bytes_of("head"));
    ASSERT_TRUE(driver_.run_until(receive));
    write_all(pair.far.get(), bytes_of("body1"));
    driver_.turn();
    write_all(pair.far.get(), bytes_of("body2"));
    Splice splice(driver_);
    splice.pipe = pipe.in.get();
    splice.size = 1000;
    std::string text;
    while (text.size() < 10) {
        const int completed = splice.completion_count;
        driver_.submit(splice, slot);
        ASSERT_TRUE(driver_.run_until([&] { return splice.completion_count > completed; }));
        ASSERT_GT(splice.result, 0);
        text += text_of(read_all(pipe.out.get(), splice.count()));
    }
    EXPECT_EQ(text, "body1body2");
    pair.far.reset();
    const int completed = splice.completion_count;
    driver_.submit(splice, slot);
    ASSERT_TRUE(driver_.run_until([&] { return splice.completion_count > completed; }));
    EXPECT_EQ(splice.result, 0);
}

TEST_F(IoUringRequests, ASpliceThatWaitsForThePipeIsCancelled) {
    const SocketPair pair = unix_pair();
    const Pipe pipe = make_pipe();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    Splice splice(driver_);
    splice.pipe = pipe.out.get();
    splice.into_socket = true;
    splice.size = 1000;
    driver_.submit(splice, slot);
    driver_.turn();
    driver_.cancel(splice);
    ASSERT_TRUE(driver_.run_until(splice));
    EXPECT_EQ(splice.result, -ECANCELED);
    // A socket that goes ends what waits on its pipe.
    Splice other(driver_);
    other.pipe = pipe.out.get();
    other.into_socket = true;
    other.size = 1000;
    driver_.submit(other, slot);
    driver_.turn();
    driver_.detach(slot, Detach::keep);
    ASSERT_TRUE(driver_.run_until(other));
    EXPECT_EQ(other.result, -ECANCELED);
}

TEST_F(IoUringRequests, WhatIsNoOperationOnASocketIsRefused) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    Counted<CloseOperation> close(driver_);
    EXPECT_EQ(driver_.submit(close, slot), Start::done);
    EXPECT_EQ(close.result, -EINVAL);
    Counted<AcceptOperation> accept(driver_);
    EXPECT_EQ(driver_.submit(accept, slot), Start::done);
    EXPECT_EQ(accept.result, -EINVAL);
}

}  // namespace
}  // namespace berth::internal
