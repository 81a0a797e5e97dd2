// SPDX-License-Identifier: Apache-2.0
#include <berth/datagram_socket.h>

#include "src/base/system_calls.h"
#include "src/net/socket_setup.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace berth {
namespace {

using internal::DescriptorKind;
using internal::Detach;
using internal::LoopState;
using internal::NewSocket;

Result<void> configure(NewSocket& socket, const DatagramOptions& options) {
    const int fd = socket.fd();
    if (options.receive_buffer_size != 0) {
        BERTH_TRY(internal::set_option(fd, SOL_SOCKET, SO_RCVBUF, options.receive_buffer_size,
                                       "SO_RCVBUF"));
    }
    if (options.send_buffer_size != 0) {
        BERTH_TRY(
            internal::set_option(fd, SOL_SOCKET, SO_SNDBUF, options.send_buffer_size, "SO_SNDBUF"));
    }
    if (!socket.internet.is_open()) {
        return {};
    }
    if (options.reuse_address) {
        BERTH_TRY(socket.internet.set_reuse_address(true));
    }
    if (options.reuse_port) {
        BERTH_TRY(socket.internet.set_reuse_port(true));
    }
    if (socket.internet.family() == Family::ipv6) {
        BERTH_TRY(socket.internet.set_v6_only(options.v6_only));
    }
    return options.joins_segments ? internal::set_option(fd, IPPROTO_UDP, UDP_GRO, 1, "UDP_GRO")
                                  : Result<void>();
}

Result<NewSocket> open_configured(LoopState& loop, const Endpoint& endpoint,
                                  const DatagramOptions& options) {
    NewSocket socket =
        BERTH_TRY(internal::open_socket(endpoint, Protocol::udp, loop.socket_mode() != 0));
    BERTH_TRY(configure(socket, options));
    return socket;
}

Result<Port> connect_socket(const NewSocket& socket, const Endpoint& remote, PortTable* ports) {
    if (ports != nullptr && socket.internet.is_open()) {
        return ports->connect(socket.internet, remote.address());
    }
    if (internal::calls().connect(socket.fd(), remote.data(), remote.size()) != 0) {
        return std::unexpected(Error::from_errno(errno, "connect", remote.to_string()));
    }
    return Port();
}

void set_destination(SendToOperation& send, const Endpoint* to) noexcept {
    send.has_destination = to != nullptr;
    if (to != nullptr) {
        send.to = *to;
    }
}

auto fill(std::span<const std::byte> bytes, const Endpoint* to) {
    return [bytes, to](SendToOperation& send) {
        send.parts = {};
        send.single = {const_cast<std::byte*>(bytes.data()), bytes.size()};
        set_destination(send, to);
    };
}

auto fill(std::span<const iovec> parts, const Endpoint* to) {
    return [parts, to](SendToOperation& send) {
        send.parts = parts;
        send.single = {};  // no parts at all are an empty datagram
        set_destination(send, to);
    };
}

template <class Bytes>
auto fill(std::span<Bytes> bytes, const Endpoint* to, std::uint16_t segment_size) {
    return [fill_bytes = fill(bytes, to), segment_size](SendToOperation& send) {
        fill_bytes(send);
        send.segment_size = segment_size;
    };
}

}  // namespace

Result<DatagramSocket> DatagramSocket::open(Loop& loop, const Endpoint& local,
                                            const DatagramOptions& options) {
    LoopState& state = loop.state();
    NewSocket socket = BERTH_TRY(open_configured(state, local, options));
    PortTable* ports = options.reuse_port ? nullptr : state.options().udp_ports;
    Port port = BERTH_TRY(internal::bind_socket(socket, local, ports));
    const internal::SlotHandle slot =
        BERTH_TRY(state.attach_own(socket.fd(), DescriptorKind::datagram));
    DatagramSocket opened(&state, slot, socket.release().release());
    opened.port_ = std::move(port);
    return opened;
}

Result<DatagramSocket> DatagramSocket::open_to(Loop& loop, const Endpoint& remote,
                                               const DatagramOptions& options) {
    LoopState& state = loop.state();
    NewSocket socket = BERTH_TRY(open_configured(state, remote, options));
    Port port = BERTH_TRY(connect_socket(socket, remote, state.options().udp_ports));
    const internal::SlotHandle slot =
        BERTH_TRY(state.attach_own(socket.fd(), DescriptorKind::datagram));
    DatagramSocket opened(&state, slot, socket.release().release());
    opened.port_ = std::move(port);
    return opened;
}

Result<DatagramSocket> DatagramSocket::adopt(Loop& loop, Descriptor socket) {
    BERTH_TRY(internal::check_socket_type(socket.get(), SOCK_DGRAM, "datagram socket"));
    LoopState& state = loop.state();
    const internal::SlotHandle slot =
        BERTH_TRY(state.attach(socket.get(), DescriptorKind::datagram));
    return DatagramSocket(&state, slot, socket.release());
}

void DatagramSocket::take_over(DatagramSocket& other) noexcept {
    loop_ = other.loop_;
    slot_ = std::exchange(other.slot_, {});
    fd_ = std::exchange(other.fd_, -1);
    port_ = std::move(other.port_);
}

DatagramSocket& DatagramSocket::operator=(DatagramSocket&& other) noexcept {
    if (this != &other) {
        close();
        take_over(other);
    }
    return *this;
}

Result<Endpoint> DatagramSocket::local_endpoint() const { return internal::local_endpoint_of(fd_); }

Result<void> DatagramSocket::connect(const Endpoint& remote) {
    if (internal::calls().connect(fd_, remote.data(), remote.size()) != 0) {
        return std::unexpected(Error::from_errno(errno, "connect", remote.to_string()));
    }
    return {};
}

Start DatagramSocket::receive(ReceiveOperation& operation, std::span<std::byte> buffer,
                              Deadline deadline) noexcept {
    operation.buffer = buffer;
    operation.parts = {};
    return internal::submit(loop_, operation, slot_, deadline);
}

Start DatagramSocket::receive(ReceiveFromOperation& operation, std::span<std::byte> buffer,
                              Deadline deadline) noexcept {
    operation.buffer = buffer;
    operation.parts = {};
    return internal::submit(loop_, operation, slot_, deadline);
}

Start DatagramSocket::receive(ReceiveFromOperation& operation, std::span<const iovec> parts,
                              Deadline deadline) noexcept {
    operation.parts = parts;
    operation.buffer = {};
    return internal::submit(loop_, operation, slot_, deadline);
}

Start DatagramSocket::receive(ReceiveBatchOperation& operation, std::span<Datagram> datagrams,
                              Deadline deadline) noexcept {
    operation.datagrams = datagrams;
    return internal::submit(loop_, operation, slot_, deadline);
}

CountAwaiter<ReceiveOperation> DatagramSocket::receive_into(std::span<std::byte> buffer,
                                                            Deadline deadline) noexcept {
    return {loop_, slot_, deadline, [buffer](auto& receive) { receive.buffer = buffer; }};
}

ReceiveFromAwaiter DatagramSocket::receive_from(std::span<std::byte> buffer,
                                                Deadline deadline) noexcept {
    return {loop_, slot_, deadline, buffer};
}

CountAwaiter<ReceiveBatchOperation> DatagramSocket::receive_batch(std::span<Datagram> datagrams,
                                                                  Deadline deadline) noexcept {
    return {loop_, slot_, deadline, [datagrams](auto& receive) { receive.datagrams = datagrams; }};
}

Start DatagramSocket::send(SendToOperation& operation, std::span<const std::byte> bytes,
                           Deadline deadline) noexcept {
    fill(bytes, nullptr)(operation);
    return internal::submit(loop_, operation, slot_, deadline);
}

Start DatagramSocket::send(SendToOperation& operation, std::span<const std::byte> bytes,
                           const Endpoint& to, Deadline deadline) noexcept {
    fill(bytes, &to)(operation);
    return internal::submit(loop_, operation, slot_, deadline);
}

Start DatagramSocket::send(SendToOperation& operation, std::span<const iovec> parts,
                           Deadline deadline) noexcept {
    fill(parts, nullptr)(operation);
    return internal::submit(loop_, operation, slot_, deadline);
}

Start DatagramSocket::send(SendToOperation& operation, std::span<const iovec> parts,
                           const Endpoint& to, Deadline deadline) noexcept {
    fill(parts, &to)(operation);
    return internal::submit(loop_, operation, slot_, deadline);
}

Start DatagramSocket::send(SendBatchOperation& operation, std::span<const Datagram> datagrams,
                           Deadline deadline) noexcept {
    operation.datagrams = datagrams;
    operation.sent = 0;
    return internal::submit(loop_, operation, slot_, deadline);
}

CountAwaiter<SendToOperation> DatagramSocket::send(std::span<const std::byte> bytes,
                                                   Deadline deadline,
                                                   std::uint16_t segment_size) noexcept {
    return {loop_, slot_, deadline, fill(bytes, nullptr, segment_size)};
}

CountAwaiter<SendToOperation> DatagramSocket::send(std::span<const iovec> parts, Deadline deadline,
                                                   std::uint16_t segment_size) noexcept {
    return {loop_, slot_, deadline, fill(parts, nullptr, segment_size)};
}

CountAwaiter<SendToOperation> DatagramSocket::send_to(std::span<const std::byte> bytes,
                                                      const Endpoint& to, Deadline deadline,
                                                      std::uint16_t segment_size) noexcept {
    return {loop_, slot_, deadline, fill(bytes, &to, segment_size)};
}

CountAwaiter<SendToOperation> DatagramSocket::send_to(std::span<const iovec> parts,
                                                      const Endpoint& to, Deadline deadline,
                                                      std::uint16_t segment_size) noexcept {
    return {loop_, slot_, deadline, fill(parts, &to, segment_size)};
}

CountAwaiter<SendBatchOperation> DatagramSocket::send_batch(std::span<const Datagram> datagrams,
                                                            Deadline deadline) noexcept {
    return {loop_, slot_, deadline, [datagrams](auto& send) { send.datagrams = datagrams; }};
}

void DatagramSocket::close() noexcept {
    if (slot_.is_valid()) {
        loop_->detach(std::exchange(slot_, {}), Detach::close);
        fd_ = -1;
        port_.release();
    }
}

Descriptor DatagramSocket::release() noexcept {
    Descriptor socket(std::exchange(fd_, -1));
    if (slot_.is_valid()) {
        loop_->detach(std::exchange(slot_, {}), Detach::keep);
    }
    port_.detach();
    return socket;
}

}  // namespace berth
