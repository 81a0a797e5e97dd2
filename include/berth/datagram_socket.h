// SPDX-License-Identifier: Apache-2.0
#pragma once

// Datagrams: UDP over IPv4 or IPv6, or unix. One at a time, in batches of up to 64 a system call,
// or in segments that the kernel cuts and joins (UDP_SEGMENT, UDP_GRO).
//
// Loop thread only. A socket goes before its loop.

#include <berth/awaitable.h>
#include <berth/descriptor.h>
#include <berth/endpoint.h>
#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>
#include <berth/ports.h>

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace berth {

struct DatagramOptions {
    bool reuse_address = false;  ///< SO_REUSEADDR, for multicast
    bool reuse_port = false;     ///< SO_REUSEPORT: several share a port, which the kernel chooses
    bool v6_only = false;
    bool joins_segments = false;  ///< UDP_GRO: a receive may bring up to 64 KiB of equal datagrams
    int receive_buffer_size = 0;  ///< SO_RCVBUF in bytes; 0: the kernel's default
    int send_buffer_size = 0;     ///< SO_SNDBUF in bytes; 0: the kernel's default
};

/// What a receive_from() brought.
struct ReceivedFrom {
    std::size_t size = 0;
    Endpoint from;
    std::uint16_t segment_size = 0;
    bool is_truncated = false;
};

class ReceiveFromAwaiter;

class BERTH_API DatagramSocket {
public:
    DatagramSocket() noexcept = default;
    /// Bound to `local`. Port 0: a fresh, unguessable port of the loop's port table, else of the
    /// kernel. **Errors:** ports_exhausted, port_in_use, address_not_available, permission_denied,
    /// descriptors_exhausted, unsupported.
    static Result<DatagramSocket> open(Loop& loop, const Endpoint& local,
                                       const DatagramOptions& options = {});
    /// Connected to `remote`, from a port chosen as above. It receives from nobody else, and learns
    /// of ICMP errors (`refused`).
    static Result<DatagramSocket> open_to(Loop& loop, const Endpoint& remote,
                                          const DatagramOptions& options = {});
    static Result<DatagramSocket> adopt(Loop& loop, Descriptor socket);

    DatagramSocket(DatagramSocket&& other) noexcept { take_over(other); }
    DatagramSocket& operator=(DatagramSocket&& other) noexcept;
    ~DatagramSocket() { close(); }

    bool is_open() const noexcept { return slot_.is_valid(); }
    int fd() const noexcept { return fd_; }
    Result<Endpoint> local_endpoint() const;
    /// Only datagrams of `remote` from now on, and sends go there. **Errors:** unreachable.
    Result<void> connect(const Endpoint& remote);

    // From a connected peer, or whoever sends.
    Start receive(ReceiveOperation& operation, std::span<std::byte> buffer,
                  Deadline deadline = {}) noexcept;
    Start receive(ReceiveFromOperation& operation, std::span<std::byte> buffer,
                  Deadline deadline = {}) noexcept;
    /// Into several pieces of memory, one after the other. `parts` must stay too.
    Start receive(ReceiveFromOperation& operation, std::span<const iovec> parts,
                  Deadline deadline = {}) noexcept;
    /// At least one, at most 64 and datagrams.size().
    Start receive(ReceiveBatchOperation& operation, std::span<Datagram> datagrams,
                  Deadline deadline = {}) noexcept;
    CountAwaiter<ReceiveOperation> receive_into(std::span<std::byte> buffer,
                                                Deadline deadline = {}) noexcept;
    ReceiveFromAwaiter receive_from(std::span<std::byte> buffer, Deadline deadline = {}) noexcept;
    CountAwaiter<ReceiveBatchOperation> receive_batch(std::span<Datagram> datagrams,
                                                      Deadline deadline = {}) noexcept;

    // To the connected peer, or to `to`. Several pieces of memory make one datagram; `parts` must
    // stay too, at most 1024 of them. With a segment size the kernel cuts the bytes into up to 64
    // datagrams of that size, the last one may be shorter (UDP_SEGMENT); an operation has a member
    // for it, which stays as it is.
    Start send(SendToOperation& operation, std::span<const std::byte> bytes,
               Deadline deadline = {}) noexcept;
    Start send(SendToOperation& operation, std::span<const std::byte> bytes, const Endpoint& to,
               Deadline deadline = {}) noexcept;
    Start send(SendToOperation& operation, std::span<const iovec> parts,
               Deadline deadline = {}) noexcept;
    Start send(SendToOperation& operation, std::span<const iovec> parts, const Endpoint& to,
               Deadline deadline = {}) noexcept;
    /// All of them, in order.
    Start send(SendBatchOperation& operation, std::span<const Datagram> datagrams,
               Deadline deadline = {}) noexcept;
    CountAwaiter<SendToOperation> send(std::span<const std::byte> bytes, Deadline deadline = {},
                                       std::uint16_t segment_size = 0) noexcept;
    CountAwaiter<SendToOperation> send(std::span<const iovec> parts, Deadline deadline = {},
                                       std::uint16_t segment_size = 0) noexcept;
    CountAwaiter<SendToOperation> send_to(std::span<const std::byte> bytes, const Endpoint& to,
                                          Deadline deadline = {},
                                          std::uint16_t segment_size = 0) noexcept;
    CountAwaiter<SendToOperation> send_to(std::span<const iovec> parts, const Endpoint& to,
                                          Deadline deadline = {},
                                          std::uint16_t segment_size = 0) noexcept;
    CountAwaiter<SendBatchOperation> send_batch(std::span<const Datagram> datagrams,
                                                Deadline deadline = {}) noexcept;

    void close() noexcept;
    Descriptor release() noexcept;

private:
    DatagramSocket(internal::LoopState* loop, internal::SlotHandle slot, int fd) noexcept
        : loop_(loop), slot_(slot), fd_(fd) {}
    void take_over(DatagramSocket& other) noexcept;

    internal::LoopState* loop_ = nullptr;
    internal::SlotHandle slot_;
    int fd_ = -1;
    Port port_;
};

class BERTH_API ReceiveFromAwaiter final : public Awaiter<ReceiveFromOperation> {
public:
    ReceiveFromAwaiter(internal::LoopState* loop, internal::SlotHandle on_slot, Deadline deadline,
                       std::span<std::byte> into) noexcept
        : Awaiter(loop, on_slot, deadline) {
        buffer = into;
    }

    Result<ReceivedFrom> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(error());
        }
        return ReceivedFrom{count(), from, segment_size, is_truncated};
    }
};

}  // namespace berth
