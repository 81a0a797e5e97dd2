// SPDX-License-Identifier: Apache-2.0
#include "tests/net/resolver/dns_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace berth {
namespace {

constexpr std::size_t kHeaderSize = 12;

void put_16(DnsBytes& bytes, unsigned value) {
    bytes.push_back(static_cast<std::uint8_t>(value >> 8));
    bytes.push_back(static_cast<std::uint8_t>(value));
}

unsigned read_16(const DnsBytes& bytes, std::size_t at) {
    return static_cast<unsigned>(bytes.at(at)) << 8 | bytes.at(at + 1);
}

DnsBytes encoded_name(std::string_view name) {
    DnsBytes bytes;
    while (!name.empty()) {
        const std::string_view label = name.substr(0, name.find('.'));
        bytes.push_back(static_cast<std::uint8_t>(label.size()));
        bytes.insert(bytes.end(), label.begin(), label.end());
        name.remove_prefix(std::min(name.size(), label.size() + 1));
    }
    bytes.push_back(0);
    return bytes;
}

DnsQuestion question_of(const DnsBytes& message) {
    DnsQuestion question;
    question.id = static_cast<std::uint16_t>(read_16(message, 0));
    std::size_t at = kHeaderSize;
    while (const std::size_t size = message.at(at)) {
        question.name += question.name.empty() ? "" : ".";
        question.name.append(message.begin() + static_cast<std::ptrdiff_t>(at + 1),
                             message.begin() + static_cast<std::ptrdiff_t>(at + 1 + size));
        at += size + 1;
    }
    question.type = static_cast<DnsType>(read_16(message, at + 1));
    question.encoded.assign(message.begin() + kHeaderSize,
                            message.begin() + static_cast<std::ptrdiff_t>(at + 5));
    return question;
}

// Of the two protocols the same port: whichever the kernel gives to one may be taken in the other.
std::optional<Address> bind_both(const Descriptor& listener, const Descriptor& datagrams) {
    Address address = Address::loopback(Family::ipv4);
    if (::bind(listener.get(), address.data(), address.size()) != 0) {
        return std::nullopt;
    }
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    address = address.with_port(ntohs(bound.sin_port));
    if (::bind(datagrams.get(), address.data(), address.size()) != 0) {
        return std::nullopt;
    }
    return address;
}

}  // namespace

DnsReply::DnsReply(const DnsQuestion& question, DnsCode code) {
    put_16(bytes_, question.id);
    put_16(bytes_, 0x8180U | static_cast<unsigned>(code));
    put_16(bytes_, 1);
    put_16(bytes_, 0);
    put_16(bytes_, 0);
    put_16(bytes_, 0);
    add(question.encoded);
}

void DnsReply::add_record(DnsType type, const DnsBytes& data) {
    ++bytes_[7];
    add(owner_);
    put_16(bytes_, static_cast<unsigned>(type));
    put_16(bytes_, 1);
    put_16(bytes_, 0);
    put_16(bytes_, 60);
    put_16(bytes_, static_cast<unsigned>(data.size()));
    add(data);
}

DnsReply& DnsReply::with_address(std::string_view text) {
    const Address address = Address::parse(text).value_or(Address());
    const auto bytes = address.bytes();
    const bool is_ipv4 = address.family() == Family::ipv4;
    add_record(is_ipv4 ? DnsType::a : DnsType::aaaa,
               DnsBytes(bytes.begin(), bytes.begin() + (is_ipv4 ? 4 : 16)));
    return *this;
}

DnsReply& DnsReply::with_alias(std::string_view name) {
    add_record(DnsType::cname, encoded_name(name));
    owner_ = encoded_name(name);
    return *this;
}

DnsReply& DnsReply::truncated() {
    bytes_[2] |= 0x02;
    return *this;
}

DnsReply& DnsReply::with_id(std::uint16_t id) {
    bytes_[0] = static_cast<std::uint8_t>(id >> 8);
    bytes_[1] = static_cast<std::uint8_t>(id);
    return *this;
}

DnsReply& DnsReply::with_broken_record() {
    add_record(DnsType::a, {127, 0, 0, 1});
    bytes_[bytes_.size() - 5] = 200;
    return *this;
}

void DnsReply::add(const DnsBytes& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

DnsServer::Connection::Connection(DnsServer& server, Descriptor accepted)
    : of(server),
      socket(std::move(accepted)),
      watch(std::move(*Watch::open(server.loop_, socket.get()))),
      ready([this](PollOperation&) { of.take_bytes(*this); }) {}

DnsServer::DnsServer(Loop& loop, Answer answer)
    : loop_(loop),
      answer_(std::move(answer)),
      on_datagram_([this](PollOperation&) { take_datagrams(); }),
      on_connection_([this](PollOperation&) { take_connections(); }) {
    open_sockets();
    datagrams_watch_ = std::move(*Watch::open(loop, datagrams_.get()));
    listener_watch_ = std::move(*Watch::open(loop, listener_.get()));
    start(datagrams_watch_, on_datagram_);
    start(listener_watch_, on_connection_);
}

void DnsServer::open_sockets() {
    for (int i = 0; i < 100; ++i) {
        listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        datagrams_.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (const auto address = bind_both(listener_, datagrams_)) {
            address_ = *address;
            break;
        }
    }
    ASSERT_NE(address_.port(), 0);
    ASSERT_EQ(::listen(listener_.get(), 16), 0);
}

void DnsServer::start(Watch& watch, PollOperation& operation) {
    EXPECT_EQ(watch.poll(operation, POLLIN), Start::pending);
}

std::size_t DnsServer::count_of(std::string_view name) const {
    return static_cast<std::size_t>(
        std::ranges::count(questions_, name, [](const DnsQuestion& q) { return q.name; }));
}

std::vector<DnsBytes> DnsServer::ask(const DnsBytes& message, bool is_tcp,
                                     std::uint16_t client_port) {
    DnsQuestion question = question_of(message);
    question.is_tcp = is_tcp;
    question.client_port = client_port;
    questions_.push_back(question);
    return answer_(question);
}

void DnsServer::take_datagrams() {
    for (;;) {
        DnsBytes message(4096);
        sockaddr_in from{};
        socklen_t size = sizeof from;
        auto* client = reinterpret_cast<sockaddr*>(&from);
        const ssize_t received =
            ::recvfrom(datagrams_.get(), message.data(), message.size(), 0, client, &size);
        if (received < 0) {
            break;
        }
        message.resize(static_cast<std::size_t>(received));
        for (const DnsBytes& answer : ask(message, false, ntohs(from.sin_port))) {
            ::sendto(datagrams_.get(), answer.data(), answer.size(), 0, client, size);
        }
    }
    start(datagrams_watch_, on_datagram_);
}

void DnsServer::take_connections() {
    for (;;) {
        Descriptor socket(
            ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket.is_open()) {
            break;
        }
        Connection& connection = connections_.emplace_back(*this, std::move(socket));
        start(connection.watch, connection.ready);
    }
    start(listener_watch_, on_connection_);
}

void DnsServer::take_bytes(Connection& connection) {
    std::array<std::uint8_t, 4096> room;
    const ssize_t count = ::recv(connection.socket.get(), room.data(), room.size(), 0);
    if (count <= 0) {
        connections_.remove_if([&](const Connection& one) { return &one == &connection; });
        return;
    }
    DnsBytes& received = connection.received;
    received.insert(received.end(), room.begin(), room.begin() + count);
    while (received.size() >= 2 && received.size() >= 2 + read_16(received, 0)) {
        const auto end = received.begin() + 2 + static_cast<std::ptrdiff_t>(read_16(received, 0));
        const DnsBytes message(received.begin() + 2, end);
        received.erase(received.begin(), end);
        for (const DnsBytes& answer : ask(message, true, 0)) {
            DnsBytes framed;
            put_16(framed, static_cast<unsigned>(answer.size()));
            framed.insert(framed.end(), answer.begin(), answer.end());
            ::send(connection.socket.get(), framed.data(), framed.size(), MSG_NOSIGNAL);
        }
    }
    start(connection.watch, connection.ready);
}

}  // namespace berth
