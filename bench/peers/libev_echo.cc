// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/page_buffer.h"
#include "bench/peers/echo_exchange.h"
#include "bench/peers/libev_loop.h"

#include <berth/descriptor.h>

#include <list>

namespace berth::bench::libev {
namespace {

constexpr std::size_t kReceiveSize = 65'536;

class EchoServer {
public:
    EchoServer(EchoJob& job, Loop loop)
        : job_(job), loop_(std::move(loop)), buffer_(kReceiveSize) {}

    Result<void> run() {
        loop_.start(acceptable_, job_.listener, EV_READ, on_acceptable, this);
        return loop_.run();
    }

private:
    struct Connection {
        Connection(EchoServer& its_server, int fd) : server(its_server), socket(fd) {}
        ~Connection() { ::ev_io_stop(server.loop_.get(), &ready); }
        Connection(const Connection&) = delete;
        Connection& operator=(const Connection&) = delete;

        EchoServer& server;
        Descriptor socket;
        ev_io ready{};  // readable, or writable while something is kept
        EchoExchange exchange;
        std::list<Connection>::iterator self;
    };

    static void on_acceptable(struct ev_loop*, ev_io* watcher, int) noexcept {
        static_cast<EchoServer*>(watcher->data)->accept_all();
    }
    static void on_readable(struct ev_loop*, ev_io* watcher, int) noexcept {
        Connection& connection = *static_cast<Connection*>(watcher->data);
        EchoServer& server = connection.server;
        const auto next = connection.exchange.receive(watcher->fd, server.buffer_.bytes());
        if (next != EchoExchange::Next::receive) [[unlikely]] {
            server.turn_to(connection, next);
        }
    }
    static void on_writable(struct ev_loop*, ev_io* watcher, int) noexcept {
        Connection& connection = *static_cast<Connection*>(watcher->data);
        const auto next = connection.exchange.send_kept(watcher->fd);
        if (next != EchoExchange::Next::send_kept) {
            connection.server.turn_to(connection, next);
        }
    }

    void accept_all() {
        for (int fd; (fd = raw::accept_one(job_.listener)) >= 0;) {
            Connection& connection = connections_.emplace_front(*this, fd);
            connection.self = connections_.begin();
            loop_.start(connection.ready, fd, EV_READ, on_readable, &connection);
        }
        if (!raw::may_accept_again()) {
            loop_.fail(raw::last_error("accept").error());
        }
    }

    void turn_to(Connection& connection, EchoExchange::Next next) {
        if (next == EchoExchange::Next::close) {
            end(connection);
            return;
        }
        ::ev_io_stop(loop_.get(), &connection.ready);
        if (next == EchoExchange::Next::receive) {
            loop_.start(connection.ready, connection.socket.get(), EV_READ, on_readable,
                        &connection);
        } else {
            loop_.start(connection.ready, connection.socket.get(), EV_WRITE, on_writable,
                        &connection);
        }
    }

    void end(Connection& connection) {
        connections_.erase(connection.self);
        if (++ended_count_ == job_.connection_count) {
            loop_.stop();
        }
    }

    EchoJob& job_;
    Loop loop_;
    PageBuffer buffer_;  // of all connections: one is served at a time
    ev_io acceptable_{};
    std::list<Connection> connections_;
    unsigned ended_count_ = 0;
};

}  // namespace

Result<void> echo(EchoJob& job, Loop loop) { return EchoServer(job, std::move(loop)).run(); }

}  // namespace berth::bench::libev
