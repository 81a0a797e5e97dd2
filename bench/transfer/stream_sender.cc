// SPDX-License-Identifier: Apache-2.0
#include "bench/transfer/stream_sender.h"

#include "bench/programs/pattern.h"
#include "bench/transfer/stream_sizes.h"

#include <berth/descriptor.h>

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <cerrno>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <utility>
#include <vector>

namespace berth::bench {
namespace {

constexpr std::uint64_t kSendSize = 98'304;
constexpr std::uint64_t kMostAhead = 1'048'576;
// So many pieces of the pattern make up one send, whatever part of a period it starts with.
constexpr std::size_t kPieces = kSendSize / kPatternPeriod + 2;

struct Stream {
    Descriptor socket;
    std::uint64_t sent = 0;
    std::uint64_t size = 0;
};

Result<Descriptor> accept_next(int listener) {
    for (;;) {
        Descriptor socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (socket.is_open()) {
            return socket;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return std::unexpected(Error::from_errno(errno, "accept", "a reader"));
        }
        pollfd entry = {listener, POLLIN, 0};
        ::poll(&entry, 1, -1);
    }
}

/// The next part of a stream, as pieces of the pattern.
std::size_t lay_out(std::size_t stream, std::uint64_t offset, std::uint64_t size,
                    std::array<iovec, kPieces>& pieces) {
    std::size_t count = 0;
    while (size > 0) {
        const std::size_t phase = pattern_phase(stream, offset);
        const std::size_t piece = std::min<std::uint64_t>(size, kPatternPeriod - phase);
        // Sending only reads.
        pieces[count++] = {const_cast<std::byte*>(pattern().data() + phase), piece};
        offset += piece;
        size -= piece;
    }
    return count;
}

/// The turns of the streams, until all have been sent.
class Turns {
public:
    Turns(std::vector<Stream> streams, SendOrder order, const std::uint64_t& received_count)
        : streams_(std::move(streams)), order_(order), received_count_(received_count) {}

    Result<void> run() {
        BERTH_TRY(watch_all());
        while (open_count_ > 0) {
            if (turns_.empty()) {
                wait_for_room();
                continue;
            }
            const std::size_t index = turns_.front();
            turns_.pop_front();
            wait_for_reader();
            BERTH_TRY(send_piece(index));
        }
        return {};
    }

private:
    Result<void> watch_all() {
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            epoll_event event{};
            event.events = EPOLLOUT | EPOLLET;
            event.data.u64 = i;
            if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, streams_[i].socket.get(), &event) != 0) {
                return std::unexpected(Error::from_errno(errno, "watch", "a reader"));
            }
        }
        return {};
    }

    /// The edge of a stream that has its turn already says nothing new.
    void wait_for_room() {
        std::array<epoll_event, 256> events;
        const int count =
            ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
        for (int i = 0; i < count; ++i) {
            const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
            if (streams_[index].socket.is_open() && may_have_turn(index)) {
                turns_.push_back(index);
            }
        }
    }

    bool may_have_turn(std::size_t index) const noexcept {
        return order_ == SendOrder::in_turn || index == streams_.size() - open_count_;
    }

    void wait_for_reader() const {
        // As the reader's own: written to by another process.
        const std::atomic_ref received(const_cast<std::uint64_t&>(received_count_));
        while (sent_ > received.load(std::memory_order_relaxed) + kMostAhead) {
            ::sched_yield();
        }
    }

    /// **Errors:** the reader has gone.
    Result<void> send_piece(std::size_t index) {
        Stream& stream = streams_[index];
        std::array<iovec, kPieces> pieces;
        msghdr message{};
        message.msg_iov = pieces.data();
        message.msg_iovlen =
            lay_out(index, stream.sent, std::min(kSendSize, stream.size - stream.sent), pieces);
        const ssize_t sent = ::sendmsg(stream.socket.get(), &message, MSG_NOSIGNAL);
        if (sent < 0) {
            // It has its next turn when epoll tells of it.
            return errno == EAGAIN
                       ? Result<void>{}
                       : std::unexpected(Error::from_errno(errno, "send", "to a reader"));
        }
        stream.sent += static_cast<std::uint64_t>(sent);
        sent_ += static_cast<std::uint64_t>(sent);
        if (stream.sent < stream.size) {
            turns_.push_back(index);
        } else {
            stream.socket.reset();
            --open_count_;
            if (order_ == SendOrder::one_by_one && open_count_ > 0) {
                turns_.push_back(index + 1);
            }
        }
        return {};
    }

    std::vector<Stream> streams_;
    const SendOrder order_;
    const std::uint64_t& received_count_;
    const Descriptor epoll_{::epoll_create1(EPOLL_CLOEXEC)};
    std::deque<std::size_t> turns_;  // of the streams that may take more
    std::size_t open_count_ = streams_.size();
    std::uint64_t sent_ = 0;
};

}  // namespace

Result<void> send_streams(int listener, std::size_t count, SendOrder order,
                          const std::uint64_t& received_count, const std::function<void()>& start) {
    std::vector<Stream> streams(count);
    for (std::size_t i = 0; i < count; ++i) {
        streams[i] = {BERTH_TRY(accept_next(listener)), 0, stream_size(i, count)};
    }
    start();
    return Turns(std::move(streams), order, received_count).run();
}

}  // namespace berth::bench
