// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/libev_loop.h"
#include "bench/raw/sockets.h"

#include <unistd.h>

#include <vector>

namespace berth::bench::libev {
namespace {

class TransferClient {
public:
    TransferClient(TransferJob& job, Loop loop)
        : job_(job), loop_(std::move(loop)), watchers_(job.sockets.size()) {}

    Result<void> run() {
        job_.start();
        for (std::size_t i = 0; i < watchers_.size(); ++i) {
            loop_.start(watchers_[i], job_.sockets[i], EV_READ, on_readable, this);
        }
        return loop_.run();
    }

private:
    static void on_readable(struct ev_loop*, ev_io* watcher, int) noexcept {
        static_cast<TransferClient*>(watcher->data)->receive(*watcher);
    }

    void receive(ev_io& watcher) {
        const ssize_t size = ::recv(watcher.fd, job_.buffer.data(), job_.buffer.size(), 0);
        if (size > 0) [[likely]] {
            const auto index = static_cast<std::size_t>(&watcher - watchers_.data());
            job_.received(index, job_.buffer.first(static_cast<std::size_t>(size)));
            return;
        }
        if (size < 0 && raw::would_block()) {
            return;
        }
        if (size < 0) {
            loop_.fail(raw::last_error("receive").error());
        }
        ::ev_io_stop(loop_.get(), &watcher);
        ::close(watcher.fd);
    }

    TransferJob& job_;
    Loop loop_;
    std::vector<ev_io> watchers_;  // index = stream
};

class ChurnClient {
public:
    ChurnClient(ChurnJob& job, Loop loop)
        : job_(job), loop_(std::move(loop)), watchers_(job.parallel_count) {}

    Result<void> run() {
        job_.start();
        for (ev_io& watcher : watchers_) {
            start_next(watcher);
        }
        return loop_.run();
    }

private:
    static void on_writable(struct ev_loop*, ev_io* watcher, int) noexcept {
        auto& client = *static_cast<ChurnClient*>(watcher->data);
        client.settle(*watcher);
        client.start_next(*watcher);
    }

    /// Tries until one is under way or none is left.
    void start_next(ev_io& watcher) {
        while (started_count_ < job_.connection_count) {
            ++started_count_;
            const Result<raw::StartedConnect> started = raw::start_connect(job_);
            if (!started) {
                loop_.fail(started.error());
                return;
            }
            if (started->system_errno == 0) {
                loop_.start(watcher, started->socket, EV_WRITE, on_writable, this);
                return;
            }
            ::close(started->socket);
            job_.failed(started->system_errno);
        }
    }

    void settle(ev_io& watcher) {
        const int error = raw::connect_result(watcher.fd);
        ::ev_io_stop(loop_.get(), &watcher);
        ::close(watcher.fd);
        if (error == 0) {
            job_.connected();
        } else {
            job_.failed(error);
        }
    }

    ChurnJob& job_;
    Loop loop_;
    std::vector<ev_io> watchers_;  // one for each that may be under way
    unsigned started_count_ = 0;
};

}  // namespace

Result<void> transfer(TransferJob& job, Loop loop) {
    return TransferClient(job, std::move(loop)).run();
}

Result<void> churn(ChurnJob& job, Loop loop) {
    if (job.ports != nullptr) {
        return std::unexpected(Error(Errc::unsupported, "connect with a port table"));
    }
    return ChurnClient(job, std::move(loop)).run();
}

}  // namespace berth::bench::libev
