// SPDX-License-Identifier: Apache-2.0
// Multishot accept, multishot receive into a ring of provided buffers, and sends that are batched
// into the system call that waits and complete silently: at 1,000 connections a message costs a few
// hundredths of a system call.
#include "bench/raw/io_uring_jobs.h"
#include "bench/raw/ring.h"
#include "bench/raw/sockets.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <optional>

namespace berth::bench::raw {
namespace {

constexpr std::uint8_t kAccept = 1;
constexpr std::uint8_t kReceive = 2;
constexpr std::uint8_t kSend = 3;
constexpr std::uint16_t kEchoGroup = 0;
constexpr unsigned kSubmissions = 1'024;
constexpr unsigned kCompletions = 32'768;
constexpr unsigned kMostBuffers = 1'024;
constexpr std::size_t kBufferSize = 2'048;

class RingEchoServer {
public:
    RingEchoServer(EchoJob& job, Ring ring, BufferRing buffers)
        : job_(job), buffers_(std::move(buffers)), ring_(std::move(ring)) {}

    Result<void> run() {
        accept();
        while (ended_count_ < job_.connection_count && !failure_) {
            BERTH_TRY(ring_.submit_and_wait());
            free_sent();
            ring_.for_each_completion(
                [this](const io_uring_cqe& completion) { settle(completion); });
            receive_again();
        }
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

private:
    void accept() {
        io_uring_sqe* const submission = ring_.next();
        ::io_uring_prep_multishot_accept(submission, job_.listener, nullptr, nullptr, SOCK_CLOEXEC);
        submission->user_data = tag(kAccept, job_.listener);
    }
    void receive(int fd) { prepare_receive(ring_.next(), fd, kEchoGroup, tag(kReceive, fd)); }

    void settle(const io_uring_cqe& completion) {
        switch (kind_of(completion)) {
            case kReceive:
                received(completion);
                break;
            case kAccept:
                accepted(completion);
                break;
            default:
                sent(completion);
                break;
        }
    }

    void accepted(const io_uring_cqe& completion) {
        if (completion.res >= 0) {
            receive(completion.res);
        } else if (completion.res != -ECONNABORTED) {
            fail(completion.res, "accept");
        }
        if (!has_more(completion)) {
            accept();
        }
    }

    void received(const io_uring_cqe& completion) {
        const int fd = fd_of(completion);
        if (completion.res > 0) [[likely]] {
            const unsigned id = BufferRing::id_of(completion);
            prepare_silent_send(ring_.next(), fd, buffers_.data(id),
                                static_cast<std::size_t>(completion.res), tag(kSend, fd));
            sent_.push_back(id);
        } else if (completion.res != -ENOBUFS) {
            ::close(fd);
            ++ended_count_;
            return;
        }
        if (!has_more(completion)) {
            ended_receives_.push_back(fd);
        }
    }

    void sent(const io_uring_cqe& completion) {
        // The clients leave little unread, so that a send always fits. A connection that is gone
        // shows in its receive.
        if (completion.res != -ECONNRESET && completion.res != -EPIPE) {
            fail(completion.res < 0 ? completion.res : -EAGAIN, "send");
        }
    }

    /// All sends before the last system call are done.
    void free_sent() {
        for (const unsigned id : sent_) {
            buffers_.give_back(id);
        }
        buffers_.publish();
        sent_.clear();
    }

    /// After the completions, so that a connection's bytes stay in order.
    void receive_again() {
        for (const int fd : ended_receives_) {
            receive(fd);
        }
        ended_receives_.clear();
    }

    void fail(int result, const char* operation) {
        failure_ = Error::from_errno(-result, operation);
    }

    EchoJob& job_;
    BufferRing buffers_;
    Ring ring_;                        // goes before the memory that it may still write to
    std::vector<unsigned> sent_;       // buffers whose sends are queued
    std::vector<int> ended_receives_;  // descriptors
    unsigned ended_count_ = 0;
    std::optional<Error> failure_;
};

}  // namespace

Result<void> io_uring_echo(EchoJob& job) {
    Ring ring = BERTH_TRY(Ring::open(kSubmissions, kCompletions));
    const unsigned count = std::bit_ceil(std::clamp(2 * job.connection_count, 64U, kMostBuffers));
    BufferRing buffers = BERTH_TRY(BufferRing::open(ring, count, kBufferSize, kEchoGroup));
    return RingEchoServer(job, std::move(ring), std::move(buffers)).run();
}

}  // namespace berth::bench::raw
