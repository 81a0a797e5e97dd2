// SPDX-License-Identifier: Apache-2.0
#pragma once

// Boost.Asio with callbacks, for one thread: an io_context without locks, the concrete executor in
// place of the polymorphic one, and Asio's own recycling of the memory of handlers.
//
// Which engine Asio uses is decided when its headers are compiled. asio_io_uring.cc compiles them a
// second time, with the word `asio` defined to another: Asio's namespace and the one below are then
// others, and no inline function of the one engine can be taken for the other's.

#include "bench/programs/program.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/system/system_error.hpp>

namespace berth::bench::asio {

namespace net = ::boost::asio;
using ErrorCode = boost::system::error_code;
using Tcp = net::ip::tcp;
using Udp = net::ip::udp;

using Executor = net::io_context::executor_type;
using TcpSocket = net::basic_stream_socket<Tcp, Executor>;
using TcpAcceptor = net::basic_socket_acceptor<Tcp, Executor>;
using UdpSocket = net::basic_datagram_socket<Udp, Executor>;

/// Nothing but the loop's thread uses it.
inline constexpr int kOneThread = BOOST_ASIO_CONCURRENCY_HINT_UNSAFE;
/// One thread runs it, others may post.
inline constexpr int kOneThreadRuns = 1;

inline Error error_of(const char* operation, const ErrorCode& code) {
    return Error::from_errno(code.value(), operation);
}

/// An io_context and why it was stopped.
class Context {
public:
    explicit Context(int concurrency_hint) : context_(concurrency_hint) {}

    net::io_context& get() noexcept { return context_; }

    /// Until no operation is under way, or until stop() or fail() in a handler.
    Result<void> run() {
        context_.run();
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }
    void stop() { context_.stop(); }
    void fail(const char* operation, const ErrorCode& code) {
        failure_ = error_of(operation, code);
        stop();
    }

private:
    net::io_context context_;
    std::optional<Error> failure_;
};

/// Runs a job that is made of `args`. What Asio throws is the job's error.
template <class Runner, class... Args>
Result<void> run_job(Args&&... args) {
    try {
        return Runner(std::forward<Args>(args)...).run();
    } catch (const boost::system::system_error& thrown) {
        return std::unexpected(error_of("use an io_context", thrown.code()));
    }
}

}  // namespace berth::bench::asio
