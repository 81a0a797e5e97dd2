// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/libevent_base.h"
#include "bench/raw/sockets.h"

#include <unistd.h>

#include <vector>

namespace berth::bench::libevent {
namespace {

class TransferClient {
public:
    TransferClient(TransferJob& job, Base base)
        : job_(job), base_(std::move(base)), streams_(job.sockets.size()) {}

    Result<void> run() {
        job_.start();
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            streams_[i].client = this;
            BERTH_TRY(base_.add(streams_[i].readable, job_.sockets[i], EV_READ | EV_PERSIST,
                                on_readable, &streams_[i]));
        }
        return base_.run();
    }

private:
    struct Stream {
        event readable{};
        TransferClient* client = nullptr;
    };

    static void on_readable(evutil_socket_t fd, short, void* argument) noexcept {
        Stream& stream = *static_cast<Stream*>(argument);
        stream.client->receive(stream, fd);
    }

    void receive(Stream& stream, int fd) {
        const ssize_t size = ::recv(fd, job_.buffer.data(), job_.buffer.size(), 0);
        if (size > 0) [[likely]] {
            const auto index = static_cast<std::size_t>(&stream - streams_.data());
            job_.received(index, job_.buffer.first(static_cast<std::size_t>(size)));
            return;
        }
        if (size < 0 && raw::would_block()) {
            return;
        }
        if (size < 0) {
            base_.fail(raw::last_error("receive").error());
        }
        ::event_del(&stream.readable);
        ::close(fd);
    }

    TransferJob& job_;
    Base base_;
    std::vector<Stream> streams_;  // index = stream
};

class ChurnClient {
public:
    ChurnClient(ChurnJob& job, Base base)
        : job_(job), base_(std::move(base)), slots_(job.parallel_count) {}

    Result<void> run() {
        job_.start();
        for (Slot& slot : slots_) {
            slot.client = this;
            start_next(slot);
        }
        return base_.run();
    }

private:
    struct Slot {
        event writable{};
        ChurnClient* client = nullptr;
    };

    static void on_writable(evutil_socket_t fd, short, void* argument) noexcept {
        Slot& slot = *static_cast<Slot*>(argument);
        slot.client->settle(fd);
        slot.client->start_next(slot);
    }

    /// Tries until one is under way or none is left.
    void start_next(Slot& slot) {
        while (started_count_ < job_.connection_count) {
            ++started_count_;
            const Result<raw::StartedConnect> started = raw::start_connect(job_);
            if (!started) {
                base_.fail(started.error());
                return;
            }
            if (started->system_errno == 0) {
                // Not persistent: libevent deletes it before the callback, which closes the socket.
                const Result<void> added =
                    base_.add(slot.writable, started->socket, EV_WRITE, on_writable, &slot);
                if (!added) {
                    base_.fail(added.error());
                }
                return;
            }
            ::close(started->socket);
            job_.failed(started->system_errno);
        }
    }

    void settle(int fd) {
        const int error = raw::connect_result(fd);
        ::close(fd);
        if (error == 0) {
            job_.connected();
        } else {
            job_.failed(error);
        }
    }

    ChurnJob& job_;
    Base base_;
    std::vector<Slot> slots_;
    unsigned started_count_ = 0;
};

}  // namespace

Result<void> transfer(TransferJob& job, Base base) {
    return TransferClient(job, std::move(base)).run();
}

Result<void> churn(ChurnJob& job, Base base) {
    if (job.ports != nullptr) {
        return std::unexpected(Error(Errc::unsupported, "connect with a port table"));
    }
    return ChurnClient(job, std::move(base)).run();
}

}  // namespace berth::bench::libevent
