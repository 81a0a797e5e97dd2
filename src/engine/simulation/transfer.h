// SPDX-License-Identifier: Apache-2.0
#pragma once

// The data of one call, whichever of the many forms of reading and writing it was: iovecs of the
// caller's, a name, control messages, flags.

#include "src/engine/simulation/byte_queue.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace berth::internal::simulated {

/// A socket address as the kernel gives it; size 0: none.
struct SocketName {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

/// To where a call wants a name: cut to what fits, and the full size reported. -EINVAL for a
/// negative size, 0 otherwise, also when the caller wants none.
int copy_name(const SocketName& name, sockaddr* to, socklen_t* size) noexcept;

/// The caller's bytes, from the first on.
class Source {
public:
    explicit Source(std::span<const iovec> parts) noexcept;
    Source(const void* data, std::size_t size) noexcept;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    std::size_t remaining() const noexcept { return remaining_; }
    /// The call shall see no more than this.
    void cut(std::size_t size) noexcept {
        if (size < remaining_) remaining_ = size;
    }
    /// Fills `to`, which is no longer than remaining().
    void copy(std::span<std::byte> to) noexcept;
    /// `count` <= remaining().
    Bytes take(std::size_t count);

private:
    iovec single_;
    std::span<const iovec> parts_;
    std::size_t offset_ = 0;  // in the first of parts_
    std::size_t remaining_ = 0;
};

/// The caller's room for bytes.
class Sink {
public:
    explicit Sink(std::span<const iovec> parts) noexcept;
    Sink(void* data, std::size_t size) noexcept;
    Sink(const Sink&) = delete;
    Sink& operator=(const Sink&) = delete;

    std::size_t remaining() const noexcept { return remaining_; }
    void cut(std::size_t size) noexcept {
        if (size < remaining_) remaining_ = size;
    }
    /// Takes what there is room for, and says how much that was.
    std::size_t put(std::span<const std::byte> bytes) noexcept;

private:
    iovec single_;
    std::span<const iovec> parts_;
    std::size_t offset_ = 0;
    std::size_t remaining_ = 0;
};

struct Outgoing {
    Source data;
    int flags = 0;
    const sockaddr* to = nullptr;
    socklen_t to_size = 0;
    std::span<const std::byte> control;
};

struct Incoming {
    Sink data;
    int flags = 0;
    SocketName from;        // of a datagram
    Bytes control;          // whole control messages
    int message_flags = 0;  // for msg_flags
};

/// Appends a control message with an int in it.
void put_control(Bytes& control, int level, int type, int value);
/// The 16-bit number of the control message of this level and type, if there is one.
std::optional<std::uint16_t> find_control(std::span<const std::byte> control, int level, int type);
/// Hands what was received beside the data to the caller's header.
void fill_header(const Incoming& incoming, msghdr& header) noexcept;

}  // namespace berth::internal::simulated
