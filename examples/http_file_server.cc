// SPDX-License-Identifier: Apache-2.0
// Serves the files of a directory over HTTP/1.1: GET and HEAD, keep-alive, pipelining, ranges.
//
//     http_file_server 127.0.0.1:8080 /srv/www
//
// Nothing outside of the directory is served, whatever a path or a link in it says: the kernel sees
// to that. A request has 8 KiB and must be there in time. A file that has to come from the disk
// makes all clients wait.
#include "http_answer.h"

#include <berth/listener.h>
#include <berth/scope.h>
#include <berth/signals.h>
#include <berth/stream.h>
#include <berth/task.h>
#include <berth/timer.h>

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

using namespace std::chrono_literals;

struct Site {
    berth::Loop& loop;
    int root;
    std::chrono::seconds patience;
};

struct Input {
    std::array<char, 8192> bytes;
    std::size_t size = 0;
};

// The status of reading one; 0: the client has gone, or had nothing to ask for in time.
static berth::Task<int> read_request(Site site, berth::Stream& client, Input& input,
                                     HttpRequest& request) {
    const berth::Deadline deadline = berth::at(site.loop.now() + site.patience);
    for (;;) {
        const HttpHead head = parse_http_head({input.bytes.data(), input.size}, request);
        if (head == HttpHead::malformed) co_return 400;
        if (head == HttpHead::other_version) co_return 505;
        if (head == HttpHead::complete) {
            const bool is_known = request.method == "GET" || request.method == "HEAD";
            co_return !is_known ? 405 : request.has_body ? 413 : 200;
        }
        const std::span room = std::as_writable_bytes(std::span(input.bytes)).subspan(input.size);
        if (room.empty()) co_return 431;
        const berth::Result<std::size_t> more = co_await client.receive_into(room, deadline);
        if (!more && more.error().code() == berth::Errc::timed_out && input.size > 0) co_return 408;
        if (!more || *more == 0) co_return 0;
        input.size += *more;
    }
}

// False when the client did not take it.
static berth::Task<bool> send(Site site, berth::Stream& client, HttpAnswer answer,
                              const berth::Descriptor& file, bool is_head_only) {
    const std::string text = std::string(http::phrase_of(answer.status)) + '\n';
    if (!file.is_open()) answer.part.size = text.size();
    std::string head = http_head(answer);
    if (!file.is_open() && !is_head_only) head += text;
    const std::span bytes = std::as_bytes(std::span(head));
    if (!co_await client.send(bytes, berth::within(site.patience))) co_return false;
    HttpPart left = answer.part;
    while (file.is_open() && !is_head_only && left.size > 0) {
        const std::size_t size = std::min<std::uint64_t>(left.size, 256 * 1024);
        const berth::Result<std::size_t> sent = co_await client.send_file(
            file.get(), static_cast<std::int64_t>(left.offset), size, berth::within(site.patience));
        if (!sent || *sent == 0) co_return false;  // or the file has become shorter meanwhile
        left.offset += *sent;
        left.size -= *sent;
    }
    co_return true;
}

static berth::Task<void> serve_client(Site site, berth::Stream client) {
    Input input;
    for (;;) {
        HttpRequest request;
        const int status = co_await read_request(site, client, input, request);
        if (status == 0) co_return;
        berth::Descriptor file;
        HttpAnswer answer =
            status == 200 ? find_http_file(site.root, request, file) : http_failure(status);
        answer.keeps_alive = request.keeps_alive && !request.has_body;
        const bool is_head_only = request.method == "HEAD";
        if (!co_await send(site, client, answer, file, is_head_only)) co_return;
        if (!answer.keeps_alive) break;
        // The next request may have come already.
        input.size -= request.head_size;
        std::copy_n(input.bytes.begin() + request.head_size, input.size, input.bytes.begin());
    }
    // Closing at once would break off a client that still sends, before it has read the answer.
    if (!client.shut_down_write()) co_return;
    const berth::Deadline deadline = berth::at(site.loop.now() + 2s);
    while (co_await client.receive(deadline)) {
    }
}

static berth::Task<void> serve(Site site, berth::Listener& listener) {
    berth::Scope clients;
    for (;;) {
        berth::Result<berth::Stream> client = co_await listener.accept();
        if (client) {
            clients.spawn(serve_client(site, std::move(*client)));
            continue;
        }
        if (client.error().code() == berth::Errc::cancelled) break;
        if (!co_await berth::sleep(site.loop, berth::within(100ms))) break;
    }
    co_await clients.join();
}

static berth::Result<void> run(const berth::Address& local, const char* directory,
                               std::chrono::seconds patience) {
    berth::Descriptor root(::open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root.is_open()) {
        return std::unexpected(berth::Error::from_errno(errno, "open", directory,
                                                        "name a directory that can be read"));
    }
    berth::Loop loop = BERTH_TRY(berth::Loop::create());
    berth::SignalWatch signals = BERTH_TRY(berth::SignalWatch::open(loop, {SIGINT, SIGTERM}));
    berth::Listener listener = BERTH_TRY(berth::Listener::open(loop, local));
    std::printf("listening on %s\n", BERTH_TRY(listener.local_endpoint()).to_string().c_str());
    std::fflush(stdout);
    auto stop = berth::handler<berth::SignalOperation>([&loop](auto&) { loop.stop(); });
    signals.wait(stop);
    return berth::block_on(loop, serve(Site(loop, root.get(), patience), listener));
}

int main(int argc, char** argv) {
    const auto patience = http::read_number(argc == 4 ? argv[3] : "10");
    const auto local = berth::Address::parse(argc > 1 ? argv[1] : "");
    if (argc < 3 || argc > 4 || !patience || *patience < 1 || *patience > 3600 || !local) {
        std::fprintf(stderr, "usage: %s ADDRESS:PORT DIRECTORY [IDLE_SECONDS]\n", argv[0]);
        return 2;
    }
    const auto done = run(*local, argv[2], std::chrono::seconds(*patience));
    if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return done ? 0 : 1;
}
