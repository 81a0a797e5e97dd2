// SPDX-License-Identifier: Apache-2.0
#include "bench/echo/wire.h"

#include "bench/harness/page_buffer.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <cerrno>

#include <array>
#include <optional>

namespace berth::bench {
namespace {

class EpollWire final : public Wire {
public:
    EpollWire(Descriptor epoll, std::vector<int> sockets)
        : epoll_(std::move(epoll)), sockets_(std::move(sockets)), buffer_(65'536) {}

    void send(std::uint32_t connection, const Message& message) override {
        // A client waits for its answers: the little that is under way always fits.
        if (::send(sockets_[connection], message.data(), kMessageSize, MSG_NOSIGNAL) !=
            static_cast<ssize_t>(kMessageSize)) {
            failure_ = Error::from_errno(errno, "send", "to the server");
        }
    }

    Result<void> exchange(Sink& sink, std::chrono::nanoseconds at_most) override {
        const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
        const int count =
            ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                         static_cast<int>(milliseconds));
        for (int i = 0; i < count && !failure_; ++i) {
            receive(sink, events_[static_cast<std::size_t>(i)].data.u32);
        }
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

private:
    void receive(Sink& sink, std::uint32_t connection) {
        const std::span<std::byte> buffer = buffer_.bytes();
        const ssize_t size = ::recv(sockets_[connection], buffer.data(), buffer.size(), 0);
        if (size > 0) {
            sink.received(connection, buffer.first(static_cast<std::size_t>(size)));
        } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
            failure_ =
                Error::from_errno(size == 0 ? ECONNRESET : errno, "receive", "from the server");
        }
    }

    Descriptor epoll_;
    std::vector<int> sockets_;
    PageBuffer buffer_;
    std::array<epoll_event, 512> events_{};
    std::optional<Error> failure_;
};

}  // namespace

Result<std::unique_ptr<Wire>> open_epoll_wire(const std::vector<Descriptor>& sockets) {
    Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
    std::vector<int> descriptors;
    for (const Descriptor& socket : sockets) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u32 = static_cast<std::uint32_t>(descriptors.size());
        if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
            return std::unexpected(Error::from_errno(errno, "epoll_ctl", "a client's socket"));
        }
        descriptors.push_back(socket.get());
    }
    return std::make_unique<EpollWire>(std::move(epoll), std::move(descriptors));
}

}  // namespace berth::bench
