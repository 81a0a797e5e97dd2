// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/libuv_loop.h"

#include <vector>

namespace berth::bench::libuv {
namespace {

class TransferClient {
public:
    TransferClient(TransferJob& job, Loop loop)
        : job_(job), sockets_(job.sockets.size()), loop_(std::move(loop)) {}

    Result<void> run() {
        job_.start();
        for (std::size_t i = 0; i < sockets_.size(); ++i) {
            uv_tcp_t* const socket = &sockets_[i];
            BERTH_TRY(check("make a uv_tcp_t", ::uv_tcp_init(loop_.get(), socket)));
            socket->data = this;
            BERTH_TRY(check("open a uv_tcp_t", ::uv_tcp_open(socket, job_.sockets[i])));
            BERTH_TRY(check("read", ::uv_read_start(as_stream(socket), on_alloc, on_read)));
        }
        return loop_.run();
    }

private:
    static void on_alloc(uv_handle_t* socket, std::size_t, uv_buf_t* buffer) noexcept {
        *buffer = buffer_of(static_cast<TransferClient*>(socket->data)->job_.buffer);
    }
    static void on_read(uv_stream_t* socket, ssize_t size, const uv_buf_t* buffer) noexcept {
        auto& client = *static_cast<TransferClient*>(socket->data);
        if (size > 0) [[likely]] {
            const auto* const place = reinterpret_cast<const uv_tcp_t*>(socket);
            const auto index = static_cast<std::size_t>(place - client.sockets_.data());
            client.job_.received(index, bytes_of(*buffer, size));
        } else if (size < 0) {
            client.end(socket, static_cast<int>(size));
        }
    }

    void end(uv_stream_t* socket, int code) {
        if (code != UV_EOF) {
            loop_.fail("receive", code);
        }
        ::uv_close(as_handle(socket), nullptr);
    }

    TransferJob& job_;
    std::vector<uv_tcp_t> sockets_;  // index = stream
    Loop loop_;                      // last: its handles outlive it
};

class ChurnClient {
public:
    ChurnClient(ChurnJob& job, Loop loop)
        : job_(job), slots_(job.parallel_count), loop_(std::move(loop)) {}

    Result<void> run() {
        job_.start();
        for (Slot& slot : slots_) {
            slot.client = this;
            start_next(slot);
        }
        return loop_.run();
    }

private:
    struct Slot {
        uv_tcp_t socket{};
        uv_connect_t connecting{};
        ChurnClient* client = nullptr;
    };

    static void on_connected(uv_connect_t* connecting, int status) noexcept {
        Slot& slot = *static_cast<Slot*>(connecting->handle->data);
        slot.client->settle(slot, status);
    }
    static void on_closed(uv_handle_t* socket) noexcept {
        Slot& slot = *static_cast<Slot*>(socket->data);
        slot.client->start_next(slot);
    }

    void start_next(Slot& slot) {
        if (started_count_ == job_.connection_count) {
            return;
        }
        ++started_count_;
        if (const int code = ::uv_tcp_init(loop_.get(), &slot.socket); code < 0) {
            loop_.fail("make a uv_tcp_t", code);
            return;
        }
        slot.socket.data = &slot;
        const int code =
            ::uv_tcp_connect(&slot.connecting, &slot.socket, job_.destination.data(), on_connected);
        if (code < 0) {
            job_.failed(-code);
            ::uv_close(as_handle(&slot.socket), on_closed);
        }
    }

    void settle(Slot& slot, int status) {
        if (status == UV_ECANCELED) {
            return;  // The loop is being closed.
        }
        if (status < 0) {
            job_.failed(-status);
            ::uv_close(as_handle(&slot.socket), on_closed);
            return;
        }
        job_.connected();
        // What ChurnJob::reset_on_close() does, and closes.
        if (const int code = ::uv_tcp_close_reset(&slot.socket, on_closed); code < 0) {
            loop_.fail("close", code);
        }
    }

    ChurnJob& job_;
    std::vector<Slot> slots_;
    unsigned started_count_ = 0;
    Loop loop_;  // last: its handles outlive it
};

}  // namespace

Result<void> transfer(TransferJob& job) {
    return TransferClient(job, BERTH_TRY(Loop::open())).run();
}

Result<void> churn(ChurnJob& job) {
    if (job.ports != nullptr) {
        return std::unexpected(Error(Errc::unsupported, "connect with a port table"));
    }
    return ChurnClient(job, BERTH_TRY(Loop::open())).run();
}

}  // namespace berth::bench::libuv
