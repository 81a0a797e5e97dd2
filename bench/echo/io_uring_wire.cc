// SPDX-License-Identifier: Apache-2.0
#include "bench/echo/wire.h"

#include "bench/raw/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace berth::bench {
namespace {

constexpr unsigned kSubmissions = 1'024;
constexpr unsigned kCompletions = 32'768;
constexpr unsigned kMostBuffers = 32'768;
constexpr std::size_t kBufferSize = 128;
constexpr std::uint16_t kGroup = 0;
constexpr std::uint8_t kReceive = 1;
constexpr std::uint8_t kSend = 2;

/// Sockets are known to the kernel by their index: looking one up costs less than by descriptor.
class IoUringWire final : public Wire {
public:
    IoUringWire(Ring ring, BufferRing buffers)
        : buffers_(std::move(buffers)), ring_(std::move(ring)), messages_(kSubmissions) {}

    Result<void> add(const std::vector<Descriptor>& sockets) {
        std::vector<int> descriptors;
        for (const Descriptor& socket : sockets) {
            descriptors.push_back(socket.get());
        }
        const int result = ::io_uring_register_files(ring_.get(), descriptors.data(),
                                                     static_cast<unsigned>(descriptors.size()));
        if (result < 0) {
            return std::unexpected(Error::from_errno(-result, "register", "a client's sockets"));
        }
        for (std::uint32_t connection = 0; connection < sockets.size(); ++connection) {
            receive(connection);
        }
        return ring_.submit();
    }

    void send(std::uint32_t connection, const Message& message) override {
        io_uring_sqe* const submission = ring_.next();
        // As many places as submissions: the one that is used again was submitted long ago.
        Message& place = messages_[next_message_++ % messages_.size()];
        place = message;
        prepare_silent_send(submission, static_cast<int>(connection), place.data(), kMessageSize,
                            tag(kSend, static_cast<int>(connection)));
        use_index(submission);
    }

    Result<void> exchange(Sink& sink, std::chrono::nanoseconds at_most) override {
        BERTH_TRY(at_most.count() == 0 ? ring_.submit_and_look() : ring_.submit_and_wait(at_most));
        ring_.for_each_completion(
            [&](const io_uring_cqe& completion) { settle(sink, completion); });
        buffers_.publish();
        for (const std::uint32_t connection : ended_receives_) {
            receive(connection);
        }
        ended_receives_.clear();
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

private:
    static void use_index(io_uring_sqe* submission) {
        submission->flags = static_cast<std::uint8_t>(submission->flags | IOSQE_FIXED_FILE);
    }

    void receive(std::uint32_t connection) {
        io_uring_sqe* const submission = ring_.next();
        prepare_receive(submission, static_cast<int>(connection), kGroup,
                        tag(kReceive, static_cast<int>(connection)));
        use_index(submission);
    }

    void settle(Sink& sink, const io_uring_cqe& completion) {
        if (kind_of(completion) == kSend) {
            fail(completion.res < 0 ? completion.res : -EAGAIN, "send");
            return;
        }
        const auto connection = static_cast<std::uint32_t>(fd_of(completion));
        if (completion.res > 0) {
            const unsigned id = BufferRing::id_of(completion);
            sink.received(connection,
                          {buffers_.data(id), static_cast<std::size_t>(completion.res)});
            buffers_.give_back(id);
        } else if (completion.res != -ENOBUFS) {
            fail(completion.res < 0 ? completion.res : -ECONNRESET, "receive");
            return;
        }
        if (!has_more(completion)) {
            ended_receives_.push_back(connection);
        }
    }

    void fail(int result, const char* operation) {
        failure_ = Error::from_errno(-result, operation, "at the client");
    }

    BufferRing buffers_;
    Ring ring_;  // goes before the memory that it may still write to
    std::vector<Message> messages_;
    std::size_t next_message_ = 0;
    std::vector<std::uint32_t> ended_receives_;  // connections
    std::optional<Error> failure_;
};

}  // namespace

Result<std::unique_ptr<Wire>> open_io_uring_wire(const std::vector<Descriptor>& sockets) {
    Ring ring = BERTH_TRY(Ring::open(kSubmissions, kCompletions));
    const auto wanted = static_cast<unsigned>(2 * sockets.size());
    BufferRing buffers = BERTH_TRY(BufferRing::open(
        ring, std::bit_ceil(std::clamp(wanted, 64U, kMostBuffers)), kBufferSize, kGroup));
    auto wire = std::make_unique<IoUringWire>(std::move(ring), std::move(buffers));
    BERTH_TRY(wire->add(sockets));
    return wire;
}

Result<std::unique_ptr<Wire>> Wire::open(const std::vector<Descriptor>& sockets) {
    Result<std::unique_ptr<Wire>> wire = open_io_uring_wire(sockets);
    return wire ? std::move(wire) : open_epoll_wire(sockets);
}

}  // namespace berth::bench
