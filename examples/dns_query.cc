// SPDX-License-Identifier: Apache-2.0
// Asks a name server for the addresses of names.
//
//     dns_query 9.9.9.9 example.org example.net
//
// Whoever can guess the number and the port of a query can forge its answer. Each query has a fresh
// number and a socket of its own on a fresh, unguessable port, which a port table gives in constant
// time, also when few are left; the kernel's search is slowest just then.
#include "dns_message.h"

#include <berth/datagram_socket.h>
#include <berth/event.h>
#include <berth/ports.h>
#include <berth/scope.h>
#include <berth/signals.h>
#include <berth/task.h>

#include <arpa/inet.h>
#include <sys/random.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

constexpr std::size_t kMostAtATime = 64;  // each has a descriptor
constexpr std::array<std::chrono::milliseconds, 3> kTimeouts = {500ms, 1s, 2s};
constexpr std::array kTypes = {DnsType::a, DnsType::aaaa};

struct Session {
    berth::Loop& loop;
    berth::Address server;
    berth::Semaphore places{loop, kMostAtATime};
    unsigned failure_count = 0;
};

using Answer = berth::Result<DnsAnswer>;

static Answer failure(berth::Errc code, const char* reason) {
    return std::unexpected(berth::Error(code, "ask for", "an address", 0, reason));
}

static berth::Task<Answer> ask_once(Session& session, std::string_view name, DnsType type,
                                    std::chrono::milliseconds timeout) {
    std::uint16_t id = 0;
    if (::getrandom(&id, sizeof id, 0) != sizeof id) {
        co_return failure(berth::Errc::system, "the kernel gives no random number");
    }
    const auto query = make_dns_query(id, name, type);
    if (!query) co_return failure(berth::Errc::invalid_argument, "it is no host name");
    auto socket = berth::DatagramSocket::open_to(session.loop, session.server);
    if (!socket) co_return std::unexpected(socket.error());
    const berth::Deadline deadline = berth::at(session.loop.now() + timeout);
    const auto sent = co_await socket->send(std::as_bytes(query->message()), deadline);
    if (!sent) co_return std::unexpected(sent.error());
    std::array<std::uint8_t, 512> room;
    for (;;) {
        const std::span bytes = std::as_writable_bytes(std::span(room));
        const auto size = co_await socket->receive_into(bytes, deadline);
        if (!size) co_return std::unexpected(size.error());
        DnsAnswer answer;
        const auto verdict = read_dns_answer(std::span(room).first(*size), *query, answer);
        if (verdict == DnsVerdict::answer) co_return answer;
        if (verdict == DnsVerdict::damaged) {
            co_return failure(berth::Errc::truncated, "the answer is damaged");
        }
        // Something else, perhaps a forger's guess: the answer is still to come.
    }
}

// A query may get lost, and its answer too. Asking again is another query, from another port.
static berth::Task<Answer> ask(Session& session, std::string_view name, DnsType type) {
    Answer answer = failure(berth::Errc::timed_out, nullptr);
    for (const auto timeout : kTimeouts) {
        answer = co_await ask_once(session, name, type, timeout);
        if (answer || answer.error().code() != berth::Errc::timed_out) break;
    }
    co_return answer;
}

static std::string problem_of(const Answer& answer, const berth::Address& server) {
    if (!answer) return answer.error().message() + "; asked " + server.to_string();
    if (answer->is_truncated) return "the answer does not fit a datagram; ask over TCP";
    if (answer->code == 3) return "no such name; look for a slip of the pen";
    if (answer->code == 0) return {};
    return "the server reports error " + std::to_string(answer->code) + "; ask another one";
}

static berth::Task<void> look_up(Session& session, std::string_view name, DnsType type) {
    const Answer answer = co_await ask(session, name, type);
    session.places.release();
    if (!answer && answer.error().code() == berth::Errc::cancelled) co_return;
    const std::string what = std::string(name) + (type == DnsType::a ? " A" : " AAAA");
    const std::string problem = problem_of(answer, session.server);
    if (!problem.empty()) {
        ++session.failure_count;
        std::fprintf(stderr, "%s: %s\n", what.c_str(), problem.c_str());
        co_return;
    }
    if (answer->address_count == 0) std::printf("%s none\n", what.c_str());
    for (const auto& address : std::span(answer->addresses).first(answer->address_count)) {
        std::array<char, INET6_ADDRSTRLEN> text{};
        ::inet_ntop(type == DnsType::a ? AF_INET : AF_INET6, address.data(), text.data(),
                    text.size());
        std::printf("%s %s\n", what.c_str(), text.data());
    }
}

static berth::Task<void> look_up_all(Session& session, std::span<char*> names) {
    berth::Scope lookups;
    for (const char* name : names) {
        for (const DnsType type : kTypes) {
            if (!co_await session.places.acquire()) co_return co_await lookups.join();
            lookups.spawn(look_up(session, name, type));
        }
    }
    co_await lookups.join();
}

static berth::Result<unsigned> run(const berth::Address& server, std::span<char*> names) {
    auto ports = BERTH_TRY(berth::PortTable::create(berth::Protocol::udp));
    berth::Loop loop = BERTH_TRY(berth::Loop::create({.udp_ports = &ports}));
    auto signals = BERTH_TRY(berth::SignalWatch::open(loop, {SIGINT, SIGTERM}));
    auto stop = berth::handler<berth::SignalOperation>([&loop](auto&) { loop.stop(); });
    signals.wait(stop);
    Session session{.loop = loop, .server = server};
    BERTH_TRY(berth::block_on(loop, look_up_all(session, names)));
    return session.failure_count;
}

int main(int argc, char** argv) {
    const auto server = berth::Address::parse(argc > 1 ? argv[1] : "");
    if (!server || argc < 3) {
        std::fprintf(stderr, "usage: %s SERVER_ADDRESS[:PORT] NAME...\n", argv[0]);
        return 2;
    }
    const std::span names = std::span(argv, static_cast<std::size_t>(argc)).subspan(2);
    const auto failure_count = run(server->port() == 0 ? server->with_port(53) : *server, names);
    if (!failure_count) std::fprintf(stderr, "%s\n", failure_count.error().message().c_str());
    return failure_count && *failure_count == 0 ? 0 : 1;
}
