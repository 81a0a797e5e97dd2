// SPDX-License-Identifier: Apache-2.0
#include <berth/file.h>

#include <berth/scope.h>
#include <berth/task.h>

#include "tests/net/every_engine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace berth {
namespace {

using namespace std::chrono_literals;

class FileTest : public EveryEngineTest {
protected:
    static Pipe new_pipe() {
        Result<Pipe> pipe = make_pipe();
        EXPECT_TRUE(pipe);
        return std::move(*pipe);
    }
    /// An empty regular file without a name.
    static Descriptor new_regular_file() {
        return Descriptor(::memfd_create("berth-test", MFD_CLOEXEC));
    }
    File adopt(Descriptor descriptor) {
        Result<File> file = File::adopt(loop(), std::move(descriptor));
        EXPECT_TRUE(file) << file.error().message();
        return std::move(*file);
    }
};

bool is_pipe_signal_blocked() {
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, nullptr, &set);
    return sigismember(&set, SIGPIPE) == 1;
}

bool is_descriptor_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST_P(FileTest, ReadsAndWritesARegularFileAtOffsets) {
    File file = adopt(new_regular_file());
    std::string seen;
    const auto work = [&]() -> Detached {
        EXPECT_EQ((co_await file.write(bytes_of("hello world"), 0)).value_or(0), 11U);
        std::array<std::byte, 16> room;
        const Result<std::size_t> count = co_await file.read(room, 6);
        seen = text_of(std::span(room).first(count.value_or(0)));
        EXPECT_EQ((co_await file.read(room, 11)).value_or(99), 0U) << "the end of the file";
        file.close();
    };
    work();
    ASSERT_TRUE(run_until([&] { return !file.is_open(); }));
    EXPECT_EQ(seen, "world");
}

TEST_P(FileTest, GoesOnWhereTheFileStandsWithoutAnOffset) {
    File file = adopt(new_regular_file());
    std::string seen;
    const auto work = [&]() -> Detached {
        EXPECT_TRUE(co_await file.write_all(bytes_of("one ")));
        EXPECT_TRUE(co_await file.write_all(bytes_of("two")));
        EXPECT_EQ(::lseek(file.fd(), 2, SEEK_SET), 2);
        std::array<std::byte, 3> room;
        for (int i = 0; i < 2; ++i) {
            const Result<std::size_t> count = co_await file.read(room);
            seen += text_of(std::span(room).first(count.value_or(0)));
        }
        file.close();
    };
    work();
    ASSERT_TRUE(run_until([&] { return !file.is_open(); }));
    EXPECT_EQ(seen, "e two");
}

TEST_P(FileTest, CallsBackWithAnOperationOfTheCallers) {
    Pipe pipe = new_pipe();
    File reader = adopt(std::move(pipe.read_end));
    File writer = adopt(std::move(pipe.write_end));
    std::array<std::byte, 16> room;
    std::string seen;
    auto read = handler<ReadOperation>([&](ReadOperation& done) {
        ASSERT_FALSE(done.has_failed()) << done.error().message();
        seen = text_of(std::span(room).first(done.count()));
    });
    auto write =
        handler<WriteOperation>([&](WriteOperation& done) { EXPECT_EQ(done.count(), 4U); });
    EXPECT_EQ(reader.read(read, room), Start::pending);
    EXPECT_EQ(writer.write(write, bytes_of("ping")), Start::pending);
    ASSERT_TRUE(run_until([&] { return !seen.empty() && !write.is_pending(); }));
    EXPECT_EQ(seen, "ping");
}

TEST_P(FileTest, ReadsTheEndOfAPipeWhoseWriterIsGone) {
    Pipe pipe = new_pipe();
    File reader = adopt(std::move(pipe.read_end));
    std::optional<Result<std::size_t>> last;
    std::string seen;
    const auto work = [&]() -> Detached {
        std::array<std::byte, 4> room;
        for (;;) {
            last = co_await reader.read(room);
            if (!*last || **last == 0) {
                co_return;
            }
            seen += text_of(std::span(room).first(**last));
            last.reset();
        }
    };
    work();
    EXPECT_EQ(::write(pipe.write_end.get(), "last words", 10), 10);
    pipe.write_end.reset();
    ASSERT_TRUE(run_until([&] { return last.has_value(); }));
    EXPECT_EQ(seen, "last words");
    EXPECT_EQ(last->value_or(99), 0U);
}

TEST_P(FileTest, WritesAllOfWhatIsMoreThanAPipeHolds) {
    Pipe pipe = new_pipe();
    File reader = adopt(std::move(pipe.read_end));
    File writer = adopt(std::move(pipe.write_end));
    std::string sent;
    while (sent.size() < 1'000'000) {
        sent += std::to_string(sent.size()) + ",";
    }
    std::string seen;
    const auto write = [&]() -> Detached {
        EXPECT_TRUE(co_await writer.write_all(bytes_of(sent)));
        writer.close();
    };
    const auto read = [&]() -> Detached {
        std::vector<std::byte> room(50'000);
        while (const std::size_t count = (co_await reader.read(room)).value_or(0)) {
            seen += text_of(std::span(room).first(count));
        }
        reader.close();
    };
    write();
    read();
    ASSERT_TRUE(run_until([&] { return !reader.is_open(); }));
    EXPECT_EQ(seen, sent);
}

TEST_P(FileTest, WritesAllAtAnOffset) {
    File file = adopt(new_regular_file());
    const std::string sent(300'000, 'x');
    bool is_done = false;
    const auto work = [&]() -> Detached {
        EXPECT_TRUE(co_await file.write_all(bytes_of(sent), 10));
        is_done = true;
    };
    work();
    ASSERT_TRUE(run_until([&] { return is_done; }));
    EXPECT_EQ(::lseek(file.fd(), 0, SEEK_END), 300'010);
}

TEST_P(FileTest, WritesNothingAtOnce) {
    File file = adopt(new_regular_file());
    bool is_done = false;
    const auto work = [&]() -> Detached {
        EXPECT_TRUE(co_await file.write_all({}));
        is_done = true;
    };
    work();
    EXPECT_TRUE(run_until([&] { return is_done; }));
}

TEST_P(FileTest, WriteAllEndsAtItsDeadline) {
    Pipe pipe = new_pipe();
    File writer = adopt(std::move(pipe.write_end));
    const std::string much(200'000, 'x');
    std::optional<Result<void>> written;
    const auto work = [&]() -> Detached {
        written = co_await writer.write_all(bytes_of(much), -1, within(5ms));
    };
    work();
    ASSERT_TRUE(run_until([&] { return written.has_value(); }));
    ASSERT_FALSE(*written);
    EXPECT_EQ(written->error().code(), Errc::timed_out);
}

TEST_P(FileTest, AWriteToAPipeThatNobodyReadsFailsAndKillsNobody) {
    ASSERT_FALSE(is_pipe_signal_blocked());
    Pipe pipe = new_pipe();
    File writer = adopt(std::move(pipe.write_end));
    pipe.read_end.reset();
    std::optional<Result<std::size_t>> written;
    const auto work = [&]() -> Detached { written = co_await writer.write(bytes_of("x")); };
    work();
    ASSERT_TRUE(run_until([&] { return written.has_value(); }));
    ASSERT_FALSE(*written);
    EXPECT_EQ(written->error().code(), Errc::closed);
    EXPECT_TRUE(is_pipe_signal_blocked());
    writer.close();
    EXPECT_TRUE(run_until([&] { return !is_pipe_signal_blocked(); })) << "the mask is restored";
}

TEST_P(FileTest, AWaitingWriteFailsWhenTheReaderGoes) {
    Pipe pipe = new_pipe();
    const std::string much(200'000, 'x');
    File writer = adopt(std::move(pipe.write_end));
    std::optional<Result<void>> written;
    const auto work = [&]() -> Detached { written = co_await writer.write_all(bytes_of(much)); };
    work();
    EXPECT_TRUE(loop().run_once());
    pipe.read_end.reset();
    ASSERT_TRUE(run_until([&] { return written.has_value(); }));
    ASSERT_FALSE(*written);
    EXPECT_EQ(written->error().code(), Errc::closed);
}

TEST_P(FileTest, PipeSignalStaysBlockedUntilTheLastFileIsGone) {
    Pipe pipe = new_pipe();
    File first = adopt(std::move(pipe.read_end));
    File second = adopt(std::move(pipe.write_end));
    File moved = std::move(second);
    first.close();
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(loop().run_once());
    }
    EXPECT_TRUE(is_pipe_signal_blocked());
    moved.close();
    EXPECT_TRUE(run_until([&] { return !is_pipe_signal_blocked(); }));
}

TEST_P(FileTest, ARegularFileBlocksNoSignal) {
    const File file = adopt(new_regular_file());
    EXPECT_FALSE(is_pipe_signal_blocked());
}

TEST_P(FileTest, LeavesTheModeOfASharedDescriptorAlone) {
    for (const int mode : {0, O_NONBLOCK}) {
        const Pipe pipe = new_pipe();
        const int fd = pipe.read_end.get();
        ASSERT_EQ(::fcntl(fd, F_SETFL, mode), 0);
        std::array<std::byte, 4> room;
        std::optional<std::size_t> count;
        {
            Result<File> reader = File::borrow(loop(), fd);
            ASSERT_TRUE(reader);
            const auto work = [&]() -> Detached {
                count = (co_await reader->read(room)).value_or(99);
            };
            work();
            EXPECT_TRUE(loop().run_once().has_value());
            EXPECT_FALSE(count.has_value()) << "nothing was written yet";
            EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, mode) << "while a read waits";
            EXPECT_EQ(::write(pipe.write_end.get(), "x", 1), 1);
            ASSERT_TRUE(run_until([&] { return count.has_value(); }));
            EXPECT_EQ(*count, 1U);
        }
        EXPECT_TRUE(is_descriptor_open(fd)) << "it was only borrowed";
        EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, mode);
    }
}

TEST_P(FileTest, TalksOverAPseudoterminal) {
    Descriptor leader(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(leader.is_open());
    ASSERT_EQ(::grantpt(leader.get()), 0);
    ASSERT_EQ(::unlockpt(leader.get()), 0);
    const std::string name = ::ptsname(leader.get());
    Result<File> terminal = File::open(loop(), name, O_RDWR | O_NOCTTY);
    ASSERT_TRUE(terminal) << terminal.error().message();
    File screen = adopt(std::move(leader));
    std::string line;
    std::string echo;
    const auto program = [&]() -> Detached {
        std::array<std::byte, 64> room;
        const Result<std::size_t> count = co_await terminal->read(room);
        line = text_of(std::span(room).first(count.value_or(0)));
    };
    const auto typist = [&]() -> Detached {
        EXPECT_TRUE(co_await screen.write_all(bytes_of("hello\n")));
        std::array<std::byte, 64> room;
        while (!echo.ends_with('\n')) {
            const Result<std::size_t> count = co_await screen.read(room);
            echo += text_of(std::span(room).first(count.value_or(0)));
        }
    };
    program();
    typist();
    ASSERT_TRUE(run_until([&] { return !line.empty() && echo.ends_with('\n'); }));
    EXPECT_EQ(line, "hello\n");
    EXPECT_EQ(echo, "hello\r\n");

    terminal->close();
    std::optional<Result<std::size_t>> after;
    const auto wait = [&]() -> Detached {
        std::array<std::byte, 64> room;
        after = co_await screen.read(room);
    };
    wait();
    ASSERT_TRUE(run_until([&] { return after.has_value(); }));
    ASSERT_FALSE(*after);
    EXPECT_EQ(after->error().system_errno(), EIO) << "nobody has the terminal open";
}

TEST_P(FileTest, AReadEndsAtItsDeadlineAndTakesNothing) {
    Pipe pipe = new_pipe();
    File reader = adopt(std::move(pipe.read_end));
    std::array<std::byte, 4> room;
    std::optional<Result<std::size_t>> read;
    const auto work = [&]() -> Detached { read = co_await reader.read(room, -1, within(2ms)); };
    work();
    ASSERT_TRUE(run_until([&] { return read.has_value(); }));
    ASSERT_FALSE(*read);
    EXPECT_EQ(read->error().code(), Errc::timed_out);
    read.reset();
    EXPECT_EQ(::write(pipe.write_end.get(), "abc", 3), 3);
    work();
    ASSERT_TRUE(run_until([&] { return read.has_value(); }));
    EXPECT_EQ(read->value_or(0), 3U);
}

TEST_P(FileTest, ClosingCancelsWhatWaits) {
    Pipe pipe = new_pipe();
    const int fd = pipe.read_end.get();
    File reader = adopt(std::move(pipe.read_end));
    std::array<std::byte, 4> room;
    std::optional<int> reason;
    auto read = handler<ReadOperation>([&](auto& done) { reason = done.system_errno(); });
    EXPECT_EQ(reader.read(read, room), Start::pending);
    EXPECT_TRUE(loop().run_once().has_value());
    reader.close();
    EXPECT_FALSE(reader.is_open());
    ASSERT_TRUE(run_until([&] { return reason.has_value(); }));
    EXPECT_EQ(*reason, ECANCELED);
    EXPECT_TRUE(run_until([&] { return !is_descriptor_open(fd); }));
}

TEST_P(FileTest, ClosingWhileAWriteWaitsKillsNobody) {
    for (int i = 0; i < 20; ++i) {
        Pipe pipe = new_pipe();
        File writer = adopt(std::move(pipe.write_end));
        const std::string much(100'000, 'x');
        std::optional<Result<void>> written;
        const auto work = [&]() -> Detached {
            written = co_await writer.write_all(bytes_of(much));
        };
        work();
        EXPECT_TRUE(loop().run_once());
        pipe.read_end.reset();
        writer.close();
        ASSERT_TRUE(run_until([&] { return written.has_value(); }));
        EXPECT_FALSE(*written);
    }
    EXPECT_TRUE(run_until([&] { return !is_pipe_signal_blocked(); }));
}

TEST_P(FileTest, CancellingTheTaskEndsAReadAndAWriteInPieces) {
    Pipe pipe = new_pipe();
    File reader = adopt(std::move(pipe.read_end));
    File writer = adopt(std::move(pipe.write_end));
    const std::string much(500'000, 'x');
    std::vector<Errc> outcomes;
    std::array<std::byte, 1000> room;
    const auto write = [&]() -> Task<void> {
        const Result<void> written = co_await writer.write_all(bytes_of(much));
        outcomes.push_back(written ? Errc::system : written.error().code());
    };
    // Some of what is written is read, so that the write is cancelled between two of its pieces.
    const auto read = [&]() -> Task<void> {
        Result<std::size_t> count = 0;
        do {
            count = co_await reader.read(room);
        } while (count);
        outcomes.push_back(count.error().code());
    };
    Scope tasks;
    tasks.spawn(write());
    tasks.spawn(read());
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(loop().run_once());
    }
    tasks.cancel();
    ASSERT_TRUE(run_until([&] { return tasks.size() == 0; }));
    EXPECT_THAT(outcomes, testing::ElementsAre(Errc::cancelled, Errc::cancelled));
}

TEST_P(FileTest, ReleaseGivesTheDescriptorBack) {
    Pipe pipe = new_pipe();
    const int fd = pipe.read_end.get();
    File reader = adopt(std::move(pipe.read_end));
    const Descriptor again = reader.release();
    EXPECT_EQ(again.get(), fd);
    EXPECT_FALSE(reader.is_open());
    EXPECT_TRUE(loop().run_once().has_value());
    EXPECT_TRUE(is_descriptor_open(fd));
}

TEST_P(FileTest, AClosedFileAnswersWithAnError) {
    File file;
    std::optional<Result<std::size_t>> read;
    std::optional<Result<void>> written;
    const auto work = [&]() -> Detached {
        std::array<std::byte, 4> room;
        read = co_await file.read(room);
        written = co_await file.write_all(bytes_of("x"));
    };
    work();
    ASSERT_TRUE(read.has_value() && written.has_value());
    EXPECT_EQ(read->error().code(), Errc::invalid_argument);
    EXPECT_EQ(written->error().code(), Errc::invalid_argument);
}

TEST_P(FileTest, OpeningWhatIsNotThereSaysSo) {
    const Result<File> file = File::open(loop(), "/nonexistent/berth", O_RDONLY);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().system_errno(), ENOENT);
    EXPECT_THAT(file.error().message(), testing::HasSubstr("/nonexistent/berth"));
    EXPECT_FALSE(File::adopt(loop(), Descriptor()));
    EXPECT_FALSE(File::borrow(loop(), -1));
}

TEST_P(FileTest, AReadAfterTheEndOfTheLoopIsCancelled) {
    Pipe pipe = new_pipe();
    std::array<std::byte, 4> room;
    std::optional<int> reason;
    auto read = handler<ReadOperation>([&](auto& done) { reason = done.system_errno(); });
    auto reader = std::make_unique<File>(adopt(std::move(pipe.read_end)));
    EXPECT_EQ(reader->read(read, room), Start::pending);
    reader.reset();
    loop_.reset();
    EXPECT_EQ(reason.value_or(0), ECANCELED);
    EXPECT_FALSE(is_pipe_signal_blocked());
}

BERTH_TEST_EVERY_ENGINE(FileTest);

}  // namespace
}  // namespace berth
