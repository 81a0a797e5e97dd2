// SPDX-License-Identifier: Apache-2.0
#pragma once

// The jobs over TCP: transfer, echo, churn.

#include "bench/peers/asio_context.h"
#include "bench/peers/duplicate.h"

#include <boost/asio/write.hpp>

#include <algorithm>
#include <cstring>
#include <list>
#include <vector>

namespace berth::bench::asio {

// Waits, then reads into the one buffer that all streams share. async_read_some() would need a
// buffer for each stream (it reads when it is called and calls back later), and with a hundred of
// them these leave the cache: it takes a fifth more time, with 900 streams a third.
class TransferClient {
public:
    explicit TransferClient(TransferJob& job) : job_(job), context_(kOneThread) {
        streams_.reserve(job.sockets.size());
    }

    Result<void> run() {
        job_.start();
        for (std::size_t i = 0; i < job_.sockets.size(); ++i) {
            TcpSocket& socket = streams_.emplace_back(context_.get(), Tcp::v4(), job_.sockets[i]);
            socket.non_blocking(true);
            wait(i);
        }
        return context_.run();
    }

private:
    void wait(std::size_t stream) {
        streams_[stream].async_wait(
            TcpSocket::wait_read, [this, stream](const ErrorCode& code) { receive(stream, code); });
    }

    void receive(std::size_t stream, ErrorCode code) {
        constexpr int kMostReads = 16;  // before it is another stream's turn
        const std::span<std::byte> place = job_.buffer;
        std::size_t size = place.size();
        for (int i = 0; i < kMostReads && size == place.size() && !code; ++i) {
            size = streams_[stream].read_some(net::buffer(place.data(), place.size()), code);
            job_.received(stream, place.first(size));
        }
        if (!code || code == net::error::would_block) {
            wait(stream);
            return;
        }
        if (code != net::error::eof) {
            context_.fail("receive", code);
        }
        streams_[stream].close();
    }

    TransferJob& job_;
    Context context_;
    std::vector<TcpSocket> streams_;
};

// async_write() sends at once where it can. Trying write_some() before it costs as much with epoll,
// and much more with io_uring.
class EchoServer {
public:
    explicit EchoServer(EchoJob& job)
        : job_(job), context_(kOneThread), acceptor_(context_.get()) {}

    Result<void> run() {
        Descriptor listener = BERTH_TRY(duplicate(job_.listener));
        acceptor_.assign(Tcp::v4(), listener.get());
        static_cast<void>(listener.release());  // Asio closes it.
        accept();
        return context_.run();
    }

private:
    static constexpr std::size_t kLeastBuffer = 1'024;

    struct Connection {
        Connection(TcpSocket its_socket, std::size_t buffer_size)
            : socket(std::move(its_socket)), buffer(buffer_size) {}

        TcpSocket socket;
        std::vector<std::byte> buffer;
        std::list<Connection>::iterator self;
    };

    void accept() {
        acceptor_.async_accept([this](const ErrorCode& code, TcpSocket socket) {
            if (!acceptor_.is_open()) {
                return;
            }
            if (code && code != net::error::connection_aborted) {
                context_.fail("accept", code);
                return;
            }
            if (!code) {
                start(std::move(socket));
            }
            accept();
        });
    }

    void start(TcpSocket socket) {
        const std::size_t size = std::max<std::size_t>(job_.message_size, kLeastBuffer);
        Connection& connection = connections_.emplace_front(std::move(socket), size);
        connection.self = connections_.begin();
        receive(connection);
    }

    void receive(Connection& connection) {
        connection.socket.async_read_some(
            net::buffer(connection.buffer),
            [this, &connection](const ErrorCode& code, std::size_t size) {
                if (code) {
                    end(connection);
                } else {
                    send(connection, size);
                }
            });
    }

    void send(Connection& connection, std::size_t size) {
        net::async_write(connection.socket, net::buffer(connection.buffer, size),
                         [this, &connection](const ErrorCode& code, std::size_t) {
                             if (code) {
                                 end(connection);
                             } else {
                                 receive(connection);
                             }
                         });
    }

    void end(Connection& connection) {
        connections_.erase(connection.self);
        if (++ended_count_ == job_.connection_count) {
            close_all();
        }
    }

    // Lets what is under way end, for Boost 1.81's io_uring must not be left with a pending accept:
    // it destroys the service of the socket in it, then the socket.
    void close_all() {
        acceptor_.close();
        for (Connection& connection : connections_) {
            connection.socket.close();
        }
    }

    EchoJob& job_;
    Context context_;
    TcpAcceptor acceptor_;
    std::list<Connection> connections_;
    unsigned ended_count_ = 0;
};

class ChurnClient {
public:
    explicit ChurnClient(ChurnJob& job)
        : job_(job), context_(kOneThread), destination_(endpoint_of(job.destination)) {
        sockets_.reserve(job.parallel_count);
    }

    Result<void> run() {
        job_.start();
        for (unsigned i = 0; i < job_.parallel_count; ++i) {
            start_next(sockets_.emplace_back(context_.get()));
        }
        return context_.run();
    }

private:
    static Tcp::endpoint endpoint_of(const Address& address) {
        Tcp::endpoint endpoint;
        std::memcpy(endpoint.data(), address.data(), address.size());
        endpoint.resize(address.size());
        return endpoint;
    }

    void start_next(TcpSocket& socket) {
        if (started_count_ == job_.connection_count) {
            return;
        }
        ++started_count_;
        socket.open(destination_.protocol());
        ChurnJob::reset_on_close(socket.native_handle());
        socket.async_connect(destination_, [this, &socket](const ErrorCode& code) {
            if (code) {
                job_.failed(code.value());
            } else {
                job_.connected();
            }
            socket.close();
            start_next(socket);
        });
    }

    ChurnJob& job_;
    Context context_;
    Tcp::endpoint destination_;
    std::vector<TcpSocket> sockets_;
    unsigned started_count_ = 0;
};

}  // namespace berth::bench::asio
