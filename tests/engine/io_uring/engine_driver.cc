// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/io_uring/engine_driver.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace berth::internal {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

void check(bool is_right, const char* what) {
    if (!is_right) {
        std::cerr << what << ": " << errno << '\n';
        std::abort();
    }
}

sockaddr_in loopback() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

}  // namespace

Driver::Driver(const IoUringOptions& options) {
    auto engine = IoUringEngine::create(ready_, options);
    if (!engine) {
        std::cerr << engine.error().message() << '\n';
        std::abort();
    }
    engine_ = std::move(*engine);
}

Driver::~Driver() {
    engine_->shut_down();
    run_ready();
}

LoopStatistics Driver::statistics() const noexcept {
    LoopStatistics statistics;
    engine_->add_to(statistics);
    return statistics;
}

SlotHandle Driver::attach(int fd, DescriptorKind kind) noexcept {
    const SlotHandle handle = engine_->attach(fd, kind);
    if (handle.is_valid() && kind == DescriptorKind::stream) {
        core().slots.at(handle.index).prefers_large = false;
    }
    return handle;
}

void Driver::cancel(Operation& operation, int reason) {
    if (operation.stage == OperationStage::waiting && operation.cancel_reason == 0) {
        operation.cancel_reason = reason;
        engine_->cancel(operation);
    }
}

void Driver::detach(SlotHandle slot, Detach how) { engine_->detach(slot, how, nullptr); }

void Driver::detach(SlotHandle slot, Detach how, Counted<CloseOperation>& closing) {
    closing.stage = OperationStage::waiting;
    engine_->detach(slot, how, &closing);
}

int Driver::run_ready() {
    int count = 0;
    OperationList list = ready_.take_all();
    while (!list.is_empty()) {
        Operation& operation = list.pop_front();
        if (std::exchange(operation.needs_attempt, false) && !engine_->attempt_now(operation)) {
            continue;
        }
        operation.stage = OperationStage::idle;
        operation.complete(operation);
        ++count;
    }
    return count;
}

int Driver::turn() {
    EXPECT_EQ(engine_->wait(0), 0);
    return run_ready();
}

int Driver::turn_waiting() {
    EXPECT_EQ(engine_->wait(monotonic_now_ns() + 10 * kSecond), 0);
    return run_ready();
}

bool Driver::run_until(const std::function<bool()>& is_true) {
    const std::uint64_t end_ns = monotonic_now_ns() + 20 * kSecond;
    while (!is_true()) {
        if (monotonic_now_ns() > end_ns) {
            return false;
        }
        EXPECT_EQ(engine_->wait(end_ns), 0);
        run_ready();
    }
    return true;
}

SocketPair unix_pair(int type) {
    std::array<int, 2> fds{};
    check(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds.data()) == 0, "socketpair");
    return {Descriptor(fds[0]), Descriptor(fds[1])};
}

Descriptor tcp_listener() {
    Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback();
    const auto* base = reinterpret_cast<const sockaddr*>(&address);
    check(::bind(listener.get(), base, sizeof address) == 0, "bind");
    check(::listen(listener.get(), 1024) == 0, "listen");
    return listener;
}

Endpoint local_endpoint(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    auto* base = reinterpret_cast<sockaddr*>(&address);
    check(::getsockname(fd, base, &size) == 0, "getsockname");
    return Endpoint::from(base, size).value();
}

SocketPair tcp_pair() {
    const Descriptor listener = tcp_listener();
    const Endpoint to = local_endpoint(listener.get());
    Descriptor far(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    check(::connect(far.get(), to.data(), to.size()) == 0, "connect");
    Descriptor near(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    check(near.is_open(), "accept");
    return {std::move(near), std::move(far)};
}

SocketPair udp_pair() {
    SocketPair pair{Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
                    Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))};
    const sockaddr_in address = loopback();
    const auto* base = reinterpret_cast<const sockaddr*>(&address);
    for (const int fd : {pair.near.get(), pair.far.get()}) {
        check(::bind(fd, base, sizeof address) == 0, "bind");
    }
    const Endpoint near = local_endpoint(pair.near.get());
    const Endpoint far = local_endpoint(pair.far.get());
    check(::connect(pair.near.get(), far.data(), far.size()) == 0, "connect");
    check(::connect(pair.far.get(), near.data(), near.size()) == 0, "connect");
    return pair;
}

Pipe make_pipe(int flags) {
    std::array<int, 2> fds{};
    check(::pipe2(fds.data(), flags | O_CLOEXEC) == 0, "pipe2");
    return {Descriptor(fds[0]), Descriptor(fds[1])};
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> pattern(std::size_t offset, std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        const std::size_t at = offset + i;
        const std::uint64_t word = (at / 8 + 1) * 0x9e3779b97f4a7c15ULL;
        bytes[i] = static_cast<std::byte>(word >> (at % 8 * 8));
    }
    return bytes;
}

bool is_pattern(std::span<const std::byte> bytes, std::size_t offset) {
    return std::ranges::equal(bytes, pattern(offset, bytes.size()));
}

std::vector<std::byte> read_all(int fd, std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::size_t done = 0;
    while (done < size) {
        const ssize_t count = ::read(fd, bytes.data() + done, size - done);
        if (count <= 0) {
            break;
        }
        done += static_cast<std::size_t>(count);
    }
    bytes.resize(done);
    return bytes;
}

void write_all(int fd, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        check(count > 0, "send");
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
}

void set_send_buffer(int fd, int size) {
    check(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0, "SO_SNDBUF");
}

}  // namespace berth::internal
