// SPDX-License-Identifier: Apache-2.0
// Tells which TCP ports of a host accept connections, by connecting to them.
//
//     connect_scanner 192.0.2.1 1-1023
//
// For your own hosts: scanning other people's is taken for an attack, and often forbidden. It
// connects to what it is told and to nothing else, twice to ports that stay silent; it sends
// nothing.
#include "answer_time.h"

#include <berth/ports.h>
#include <berth/scope.h>
#include <berth/signals.h>
#include <berth/stream.h>
#include <berth/task.h>
#include <berth/timer.h>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

using namespace std::chrono_literals;
using berth::Errc;
using std::chrono::nanoseconds;

struct Scan {
    berth::Loop& loop;
    berth::Address host;
    unsigned next_port;
    unsigned last_port;
    AnswerTime answer_time = {};
    unsigned open_count = 0;
    std::map<Errc, unsigned> failures = {
        {Errc::refused, 0}, {Errc::timed_out, 0}, {Errc::unreachable, 0}};
};

using Answer = berth::Result<berth::Stream>;

static bool failed_with(const Answer& answer, Errc code) {
    return !answer && answer.error().code() == code;
}

static bool is_short_of_something(const Answer& answer) {
    return failed_with(answer, Errc::ports_exhausted) ||
           failed_with(answer, Errc::descriptors_exhausted);
}

// An answer that is there counts, also when its deadline has passed: the loop runs what is ready
// before it looks at the timers.
static berth::Task<Answer> try_once(Scan& scan, berth::Address target, nanoseconds timeout) {
    const berth::TimePoint began = scan.loop.now();
    Answer answer = co_await berth::connect(scan.loop, target, berth::within(timeout));
    // A connection to itself, from a local port of the same number, looks like an open port. A
    // port table makes none; the kernel may.
    if (answer && answer->local_endpoint() == berth::Endpoint(target)) {
        answer = std::unexpected(berth::Error(Errc::ports_exhausted, "connect"));
    }
    const bool is_answer = answer || failed_with(answer, Errc::refused);
    if (is_answer) scan.answer_time.note(scan.loop.now() - began);
    co_return answer;
}

static berth::Task<Answer> probe(Scan& scan, berth::Address target) {
    Answer answer = co_await try_once(scan, target, scan.answer_time.timeout());
    if (failed_with(answer, Errc::timed_out)) {
        answer = co_await try_once(scan, target, 2 * scan.answer_time.timeout());
    }
    for (int i = 0; i < 50 && is_short_of_something(answer); ++i) {
        if (!co_await berth::sleep(scan.loop, berth::within(100ms))) break;
        answer = co_await try_once(scan, target, scan.answer_time.timeout());
    }
    co_return answer;
}

static void note(Scan& scan, unsigned port, Answer answer) {
    if (answer) {
        std::printf("%u open\n", port);
        ++scan.open_count;
        return answer->reset();  // leaves no TIME_WAIT behind
    }
    const berth::Error& error = answer.error();
    const bool is_expected = scan.failures.contains(error.code());
    if (!is_expected) std::fprintf(stderr, "%s\n", error.message().c_str());
    ++scan.failures[error.code()];
}

static berth::Task<void> work(Scan& scan) {
    while (scan.next_port <= scan.last_port) {
        const unsigned port = scan.next_port++;
        const auto target = scan.host.with_port(static_cast<std::uint16_t>(port));
        Answer answer = co_await probe(scan, target);
        if (failed_with(answer, Errc::cancelled)) break;
        note(scan, port, std::move(answer));
    }
}

static berth::Task<void> scan_all(Scan& scan, unsigned window) {
    berth::Scope workers;
    for (unsigned i = 0; i < window; ++i) workers.spawn(work(scan));
    co_await workers.join();
}

// Each connection under way needs a descriptor, and this process some besides.
static unsigned window_size() {
    constexpr rlim_t kOwn = 16;
    constexpr rlim_t kMost = 250;  // what the connection table of a small router bears
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kOwn + kMost));
    ::setrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<unsigned>(std::clamp(limit.rlim_cur, kOwn + 1, kOwn + kMost) - kOwn);
}

static berth::Result<void> run(const berth::Address& host, unsigned first, unsigned last) {
    berth::PortTable ports = BERTH_TRY(berth::PortTable::create(berth::Protocol::tcp));
    berth::Loop loop = BERTH_TRY(berth::Loop::create({.tcp_ports = &ports}));
    berth::SignalWatch signals = BERTH_TRY(berth::SignalWatch::open(loop, {SIGINT, SIGTERM}));
    auto stop = berth::handler<berth::SignalOperation>([&loop](auto&) { loop.stop(); });
    signals.wait(stop);
    Scan scan = {.loop = loop, .host = host, .next_port = first, .last_port = last};
    BERTH_TRY(berth::block_on(loop, scan_all(scan, window_size())));
    std::printf("%s: %u open", host.to_string().c_str(), scan.open_count);
    for (const auto& [code, count] : scan.failures) {
        std::printf(", %u %s", count, std::string(berth::to_string(code)).c_str());
    }
    if (scan.next_port <= last) std::printf(", stopped before port %u", scan.next_port);
    std::puts("");
    return {};
}

int main(int argc, char** argv) {
    const auto host = berth::Address::parse(argc == 3 ? argv[1] : "");
    unsigned first = 0, last = 0;
    char rest = 0;
    const bool is_range = argc == 3 && std::sscanf(argv[2], "%5u-%5u%c", &first, &last, &rest) == 2;
    if (!host || host->port() != 0 || !is_range || first < 1 || first > last || last > 65535) {
        std::fprintf(stderr, "usage: %s ADDRESS FIRST-LAST    (for your own hosts)\n", argv[0]);
        return 2;
    }
    const auto done = run(*host, first, last);
    if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return done ? 0 : 1;
}
