// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/page_buffer.h"
#include "bench/peers/duplicate.h"
#include "bench/peers/libuv_loop.h"

#include <algorithm>
#include <list>
#include <vector>

namespace berth::bench::libuv {
namespace {

constexpr std::size_t kReceiveSize = 65'536;

class EchoServer {
public:
    EchoServer(EchoJob& job, Loop loop)
        : job_(job), buffer_(kReceiveSize), loop_(std::move(loop)) {}

    Result<void> run() {
        Descriptor listener = BERTH_TRY(duplicate(job_.listener));
        BERTH_TRY(check("make a uv_tcp_t", ::uv_tcp_init(loop_.get(), &listener_)));
        listener_.data = this;
        BERTH_TRY(check("open a uv_tcp_t", ::uv_tcp_open(&listener_, listener.get())));
        static_cast<void>(listener.release());  // libuv closes it.
        BERTH_TRY(check("listen", ::uv_listen(as_stream(&listener_), SOMAXCONN, on_connection)));
        return loop_.run();
    }

private:
    struct Connection {
        explicit Connection(EchoServer& its_server) : server(its_server) {}

        EchoServer& server;
        uv_tcp_t socket{};
        uv_write_t writing{};
        std::vector<std::byte> kept;  // what the socket did not take at once
        std::list<Connection>::iterator self;
    };

    static void on_connection(uv_stream_t* listener, int status) noexcept {
        auto& server = *static_cast<EchoServer*>(listener->data);
        if (status < 0) {
            server.loop_.fail("accept", status);
        } else if (const Result<void> started = server.start(listener); !started) {
            server.loop_.fail("accept", -started.error().system_errno());
        }
    }
    static void on_alloc(uv_handle_t* socket, std::size_t, uv_buf_t* buffer) noexcept {
        *buffer = buffer_of(static_cast<Connection*>(socket->data)->server.buffer_.bytes());
    }
    static void on_read(uv_stream_t* socket, ssize_t size, const uv_buf_t* buffer) noexcept {
        if (size > 0) [[likely]] {
            const uv_buf_t data = ::uv_buf_init(buffer->base, static_cast<unsigned>(size));
            const int sent = ::uv_try_write(socket, &data, 1);
            if (sent == size) [[likely]] {
                return;
            }
            Connection& connection = *static_cast<Connection*>(socket->data);
            connection.server.keep_rest(connection, bytes_of(*buffer, size), sent);
        } else if (size < 0) {
            end(*static_cast<Connection*>(socket->data));
        }
    }
    static void on_written(uv_write_t* writing, int status) noexcept {
        Connection& connection = *static_cast<Connection*>(writing->handle->data);
        connection.kept = {};
        if (status == UV_ECANCELED) {
            return;  // It is being closed.
        }
        if (status < 0 || ::uv_read_start(as_stream(&connection.socket), on_alloc, on_read) < 0) {
            end(connection);
        }
    }
    static void on_closed(uv_handle_t* socket) noexcept {
        Connection& connection = *static_cast<Connection*>(socket->data);
        EchoServer& server = connection.server;
        server.connections_.erase(connection.self);
        if (++server.ended_count_ == server.job_.connection_count) {
            server.loop_.stop();
        }
    }

    Result<void> start(uv_stream_t* listener) {
        Connection& connection = connections_.emplace_front(*this);
        connection.self = connections_.begin();
        BERTH_TRY(check("make a uv_tcp_t", ::uv_tcp_init(loop_.get(), &connection.socket)));
        connection.socket.data = &connection;
        uv_stream_t* const socket = as_stream(&connection.socket);
        BERTH_TRY(check("accept", ::uv_accept(listener, socket)));
        return check("read", ::uv_read_start(socket, on_alloc, on_read));
    }

    /// Nothing more is received before it is written. `sent` is what uv_try_write() answered.
    void keep_rest(Connection& connection, std::span<const std::byte> data, int sent) {
        if (sent < 0 && sent != UV_EAGAIN) {
            end(connection);
            return;
        }
        const auto rest = data.subspan(static_cast<std::size_t>(std::max(sent, 0)));
        connection.kept.assign(rest.begin(), rest.end());
        uv_stream_t* const socket = as_stream(&connection.socket);
        ::uv_read_stop(socket);
        const uv_buf_t kept = buffer_of(connection.kept);
        if (::uv_write(&connection.writing, socket, &kept, 1, on_written) < 0) {
            end(connection);
        }
    }

    static void end(Connection& connection) {
        ::uv_close(as_handle(&connection.socket), on_closed);
    }

    EchoJob& job_;
    PageBuffer buffer_;  // of all connections: one is served at a time
    uv_tcp_t listener_{};
    std::list<Connection> connections_;
    unsigned ended_count_ = 0;
    Loop loop_;  // last: its handles outlive it
};

}  // namespace

Result<void> echo(EchoJob& job) { return EchoServer(job, BERTH_TRY(Loop::open())).run(); }

}  // namespace berth::bench::libuv
