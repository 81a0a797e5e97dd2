// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/transfer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace berth::internal::simulated {
namespace {

std::size_t total_size(std::span<const iovec> parts) noexcept {
    std::size_t size = 0;
    for (const iovec& part : parts) size += part.iov_len;
    return size;
}

// Calls `visit` with the pieces of `parts` that hold the next `count` bytes, and moves on.
template <class Visitor>
void walk(std::span<const iovec>& parts, std::size_t& offset, std::size_t count, Visitor visit) {
    while (count > 0) {
        const iovec& part = parts.front();
        const std::size_t step = std::min(count, part.iov_len - offset);
        if (step > 0) {
            visit(static_cast<std::byte*>(part.iov_base) + offset, step);
        }
        count -= step;
        offset += step;
        if (offset == part.iov_len) {
            parts = parts.subspan(1);
            offset = 0;
        }
    }
}

constexpr std::size_t align_control(std::size_t size) noexcept {
    return (size + sizeof(std::size_t) - 1) & ~(sizeof(std::size_t) - 1);
}

}  // namespace

int copy_name(const SocketName& name, sockaddr* to, socklen_t* size) noexcept {
    if (to == nullptr || size == nullptr) {
        return 0;
    }
    if (static_cast<int>(*size) < 0) {
        return -EINVAL;
    }
    std::memcpy(to, &name.storage, std::min(*size, name.size));
    *size = name.size;
    return 0;
}

Source::Source(std::span<const iovec> parts) noexcept
    : single_{}, parts_(parts), remaining_(total_size(parts)) {}

Source::Source(const void* data, std::size_t size) noexcept
    : single_{const_cast<void*>(data), size}, parts_(&single_, 1), remaining_(size) {}

void Source::copy(std::span<std::byte> to) noexcept {
    std::byte* at = to.data();
    walk(parts_, offset_, to.size(), [&at](const std::byte* from, std::size_t count) {
        std::memcpy(at, from, count);
        at += count;
    });
    remaining_ -= to.size();
}

Bytes Source::take(std::size_t count) {
    Bytes bytes(count);
    copy(bytes);
    return bytes;
}

Sink::Sink(std::span<const iovec> parts) noexcept
    : single_{}, parts_(parts), remaining_(total_size(parts)) {}

Sink::Sink(void* data, std::size_t size) noexcept
    : single_{data, size}, parts_(&single_, 1), remaining_(size) {}

std::size_t Sink::put(std::span<const std::byte> bytes) noexcept {
    const std::size_t size = std::min(bytes.size(), remaining_);
    const std::byte* at = bytes.data();
    walk(parts_, offset_, size, [&at](std::byte* to, std::size_t count) {
        std::memcpy(to, at, count);
        at += count;
    });
    remaining_ -= size;
    return size;
}

void put_control(Bytes& control, int level, int type, int value) {
    cmsghdr header{};
    header.cmsg_len = sizeof(header) + sizeof(value);
    header.cmsg_level = level;
    header.cmsg_type = type;
    const std::size_t start = control.size();
    control.resize(start + align_control(header.cmsg_len));
    std::memcpy(control.data() + start, &header, sizeof(header));
    std::memcpy(control.data() + start + sizeof(header), &value, sizeof(value));
}

std::optional<std::uint16_t> find_control(std::span<const std::byte> control, int level, int type) {
    while (control.size() >= sizeof(cmsghdr)) {
        cmsghdr header;
        std::memcpy(&header, control.data(), sizeof(header));
        std::uint16_t value = 0;
        if (header.cmsg_level == level && header.cmsg_type == type &&
            header.cmsg_len >= sizeof(header) + sizeof(value)) {
            std::memcpy(&value, control.data() + sizeof(header), sizeof(value));
            return value;
        }
        const std::size_t step = align_control(header.cmsg_len);
        if (step < sizeof(header) || step > control.size()) {
            break;
        }
        control = control.subspan(step);
    }
    return std::nullopt;
}

void fill_header(const Incoming& incoming, msghdr& header) noexcept {
    header.msg_flags = incoming.message_flags;
    if (header.msg_name != nullptr) {
        copy_name(incoming.from, static_cast<sockaddr*>(header.msg_name), &header.msg_namelen);
    }
    const std::size_t room = header.msg_control == nullptr ? 0 : header.msg_controllen;
    const std::size_t size = std::min(room, incoming.control.size());
    if (size > 0) {
        std::memcpy(header.msg_control, incoming.control.data(), size);
    }
    header.msg_controllen = size;
    if (size < incoming.control.size()) {
        header.msg_flags |= MSG_CTRUNC;
    }
}

}  // namespace berth::internal::simulated
