// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/page_buffer.h"
#include "bench/peers/echo_exchange.h"
#include "bench/peers/libevent_base.h"

#include <berth/descriptor.h>

#include <event2/listener.h>

#include <list>

namespace berth::bench::libevent {
namespace {

constexpr std::size_t kReceiveSize = 65'536;

class EchoServer {
public:
    EchoServer(EchoJob& job, Base base)
        : job_(job), base_(std::move(base)), buffer_(kReceiveSize) {}

    Result<void> run() {
        constexpr int kAlreadyListening = 0;
        listener_.reset(::evconnlistener_new(base_.get(), on_accepted, this, LEV_OPT_CLOSE_ON_EXEC,
                                             kAlreadyListening, job_.listener));
        if (listener_ == nullptr) {
            return raw::last_error("make an evconnlistener");
        }
        ::evconnlistener_set_error_cb(listener_.get(), on_accept_failed);
        return base_.run();
    }

private:
    struct FreeListener {
        void operator()(evconnlistener* listener) const noexcept {
            ::evconnlistener_free(listener);
        }
    };

    struct Connection {
        Connection(EchoServer& its_server, int fd) : server(its_server), socket(fd) {}
        ~Connection() {
            if (::event_initialized(&ready) != 0) {
                ::event_del(&ready);
            }
        }
        Connection(const Connection&) = delete;
        Connection& operator=(const Connection&) = delete;

        EchoServer& server;
        Descriptor socket;
        event ready{};  // readable, or writable while something is kept
        EchoExchange exchange;
        std::list<Connection>::iterator self;
    };

    static void on_accepted(evconnlistener*, evutil_socket_t fd, sockaddr*, int,
                            void* self) noexcept {
        static_cast<EchoServer*>(self)->start(fd);
    }
    static void on_accept_failed(evconnlistener*, void* self) noexcept {
        static_cast<EchoServer*>(self)->base_.fail(raw::last_error("accept").error());
    }
    static void on_readable(evutil_socket_t fd, short, void* argument) noexcept {
        Connection& connection = *static_cast<Connection*>(argument);
        EchoServer& server = connection.server;
        const auto next = connection.exchange.receive(fd, server.buffer_.bytes());
        if (next != EchoExchange::Next::receive) [[unlikely]] {
            server.turn_to(connection, next);
        }
    }
    static void on_writable(evutil_socket_t fd, short, void* argument) noexcept {
        Connection& connection = *static_cast<Connection*>(argument);
        const auto next = connection.exchange.send_kept(fd);
        if (next != EchoExchange::Next::send_kept) {
            connection.server.turn_to(connection, next);
        }
    }

    void start(int fd) {
        Connection& connection = connections_.emplace_front(*this, fd);
        connection.self = connections_.begin();
        watch(connection, EV_READ, on_readable);
    }

    void turn_to(Connection& connection, EchoExchange::Next next) {
        if (next == EchoExchange::Next::close) {
            end(connection);
            return;
        }
        ::event_del(&connection.ready);
        if (next == EchoExchange::Next::receive) {
            watch(connection, EV_READ, on_readable);
        } else {
            watch(connection, EV_WRITE, on_writable);
        }
    }

    void watch(Connection& connection, int what, event_callback_fn callback) {
        const Result<void> added = base_.add(connection.ready, connection.socket.get(),
                                             what | EV_PERSIST, callback, &connection);
        if (!added) {
            base_.fail(added.error());
        }
    }

    void end(Connection& connection) {
        connections_.erase(connection.self);
        if (++ended_count_ == job_.connection_count) {
            base_.stop();
        }
    }

    EchoJob& job_;
    Base base_;
    PageBuffer buffer_;  // of all connections: one is served at a time
    std::unique_ptr<evconnlistener, FreeListener> listener_;
    std::list<Connection> connections_;
    unsigned ended_count_ = 0;
};

}  // namespace

Result<void> echo(EchoJob& job, Base base) { return EchoServer(job, std::move(base)).run(); }

}  // namespace berth::bench::libevent
