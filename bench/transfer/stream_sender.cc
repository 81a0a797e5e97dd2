// SPDX-License-Identifier: Apache-2.0
#include "bench/transfer/stream_sender.h"

#include "bench/programs/pattern.h"
#include "bench/transfer/stream_sizes.h"

#include <berth/descriptor.h>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <cerrno>

#include <algorithm>
#include <array>
#include <vector>

namespace berth::bench {
namespace {

constexpr std::uint64_t kSendSize = 262'144;
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

/// Sends as much as the socket takes. True when that was all. **Errors:** the reader has gone.
Result<bool> send_more(std::size_t index, Stream& stream) {
    while (stream.sent < stream.size) {
        std::array<iovec, kPieces> pieces;
        msghdr message{};
        message.msg_iov = pieces.data();
        message.msg_iovlen =
            lay_out(index, stream.sent, std::min(kSendSize, stream.size - stream.sent), pieces);
        const ssize_t sent = ::sendmsg(stream.socket.get(), &message, MSG_NOSIGNAL);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR
                       ? Result<bool>(false)
                       : std::unexpected(Error::from_errno(errno, "send", "to a reader"));
        }
        stream.sent += static_cast<std::uint64_t>(sent);
    }
    return true;
}

Result<void> send_all(std::vector<Stream>& streams) {
    const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
    for (std::size_t i = 0; i < streams.size(); ++i) {
        epoll_event event{};
        event.events = EPOLLOUT | EPOLLET;
        event.data.u64 = i;
        ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, streams[i].socket.get(), &event);
    }
    std::array<epoll_event, 256> events;
    for (std::size_t open = streams.size(); open > 0;) {
        const int count =
            ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), -1);
        for (int i = 0; i < count; ++i) {
            const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
            if (streams[index].socket.is_open() && BERTH_TRY(send_more(index, streams[index]))) {
                streams[index].socket.reset();
                --open;
            }
        }
    }
    return {};
}

}  // namespace

Result<void> send_streams(int listener, std::size_t count, const std::function<void()>& start) {
    std::vector<Stream> streams(count);
    for (std::size_t i = 0; i < count; ++i) {
        streams[i] = {BERTH_TRY(accept_next(listener)), 0, stream_size(i, count)};
    }
    start();
    return send_all(streams);
}

}  // namespace berth::bench
