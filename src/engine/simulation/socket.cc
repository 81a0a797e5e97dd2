// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/socket.h"

#include "src/engine/simulation/kernel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace berth::internal::simulated {
namespace {

constexpr int kLeastSendBuffer = 4'608;
constexpr int kLeastReceiveBuffer = 2'304;
constexpr std::uint64_t kNamespaceCookie = 1;

int put_value(const void* from, std::size_t from_size, void* value, socklen_t* size) {
    if (static_cast<int>(*size) < 0) {
        return -EINVAL;
    }
    *size = std::min(*size, static_cast<socklen_t>(from_size));
    std::memcpy(value, from, *size);
    return 0;
}

template <class T>
int take_value(std::span<const std::byte> value, T& to) {
    if (value.size() < sizeof(T)) {
        return -EINVAL;
    }
    std::memcpy(&to, value.data(), sizeof(T));
    return 0;
}

constexpr int pair_of(int level, int name) noexcept { return level * 1'000 + name; }

constexpr int kLinger = pair_of(SOL_SOCKET, SO_LINGER);
constexpr int kReceiveTimeout = pair_of(SOL_SOCKET, SO_RCVTIMEO);
constexpr int kSendTimeout = pair_of(SOL_SOCKET, SO_SNDTIMEO);
constexpr int kDevice = pair_of(SOL_SOCKET, SO_BINDTODEVICE);
constexpr int kCookie = pair_of(SOL_SOCKET, SO_COOKIE);
constexpr int kNetnsCookie = pair_of(SOL_SOCKET, SO_NETNS_COOKIE);
constexpr int kCongestion = pair_of(IPPROTO_TCP, TCP_CONGESTION);

}  // namespace

Socket::Socket(Kernel& kernel, Kind kind)
    : File(kernel),
      kind_(kind),
      send_buffer_(kernel.options.send_buffer),
      receive_buffer_(kernel.options.receive_buffer),
      cookie_(++kernel.last_socket_cookie) {}

int Socket::broken_pipe(int flags) noexcept {
    if ((flags & MSG_NOSIGNAL) == 0) {
        ++kernel_.broken_pipe_count;
    }
    return -EPIPE;
}

void Socket::copy_options(const Socket& from) {
    send_buffer_ = from.send_buffer_;
    receive_buffer_ = from.receive_buffer_;
    linger_ = from.linger_;
    inert_options_ = from.inert_options_;
    receive_timeout_ = from.receive_timeout_;
    send_timeout_ = from.send_timeout_;
}

bool Socket::has_level(int level) const noexcept {
    switch (level) {
        case SOL_SOCKET:
            return true;
        case IPPROTO_IP:
            return kind_.domain != AF_UNIX;
        case IPPROTO_IPV6:
            return kind_.domain == AF_INET6;
        default:
            return level == kind_.protocol;
    }
}

int Socket::get_option(int level, int name, void* value, socklen_t* size) {
    static constexpr std::string_view kCongestionName = "cubic";
    switch (pair_of(level, name)) {
        case kLinger:
            return put_value(&linger_, sizeof(linger_), value, size);
        case kReceiveTimeout:
            return put_value(&receive_timeout_, sizeof(receive_timeout_), value, size);
        case kSendTimeout:
            return put_value(&send_timeout_, sizeof(send_timeout_), value, size);
        case kDevice:
            return put_value("", 0, value, size);
        case kCookie:
            return put_value(&cookie_, sizeof(cookie_), value, size);
        case kNetnsCookie:
            return put_value(&kNamespaceCookie, sizeof(kNamespaceCookie), value, size);
        case kCongestion:
            return put_value(kCongestionName.data(), kCongestionName.size(), value, size);
        default:
            break;
    }
    const std::optional<int> number = get_number(level, name);
    if (!number) {
        return kind_.domain == AF_UNIX && level != SOL_SOCKET ? -EOPNOTSUPP : -ENOPROTOOPT;
    }
    return put_value(&*number, sizeof(*number), value, size);
}

std::optional<int> Socket::get_number(int level, int name) {
    if (const std::optional<int> own = get_own_option(level, name)) {
        return own;
    }
    if (!has_level(level)) {
        return std::nullopt;
    }
    if (level != SOL_SOCKET) {
        return inert_options_.get(level, name);
    }
    switch (name) {
        case SO_DOMAIN:
            return kind_.domain;
        case SO_TYPE:
            return kind_.type;
        case SO_PROTOCOL:
            return kind_.protocol;
        case SO_ERROR:
            return take_error();
        case SO_ACCEPTCONN:
            return static_cast<int>(is_listening());
        case SO_SNDBUF:
            return send_buffer_;
        case SO_RCVBUF:
            return receive_buffer_;
        default:
            return inert_options_.get(level, name);
    }
}

int Socket::set_option(int level, int name, std::span<const std::byte> value) {
    switch (pair_of(level, name)) {
        case kLinger:
            return take_value(value, linger_);
        case kReceiveTimeout:
            return take_value(value, receive_timeout_);
        case kSendTimeout:
            return take_value(value, send_timeout_);
        case kCongestion:
            return 0;
        case kDevice:
            // There is one device, and "" unbinds.
            return value.empty() || value[0] == std::byte{0} ? 0 : -ENODEV;
        default:
            break;
    }
    int number = 0;
    if (const int error = take_value(value, number); error != 0) {
        return error;
    }
    return set_number(level, name, number);
}

int Socket::set_number(int level, int name, int value) {
    if (const std::optional<int> own = set_own_option(level, name, value)) {
        return *own;
    }
    if (!has_level(level)) {
        return kind_.domain == AF_UNIX ? -EOPNOTSUPP : -ENOPROTOOPT;
    }
    if (level == SOL_SOCKET) {
        const int asked = std::min(value, kernel_.options.max_asked_buffer);
        switch (name) {
            case SO_SNDBUF:
                return set_buffer(send_buffer_, asked, kLeastSendBuffer);
            case SO_RCVBUF:
                return set_buffer(receive_buffer_, asked, kLeastReceiveBuffer);
            case SO_SNDBUFFORCE:
                return set_buffer(send_buffer_, value, kLeastSendBuffer);
            case SO_RCVBUFFORCE:
                return set_buffer(receive_buffer_, value, kLeastReceiveBuffer);
            default:
                break;
        }
    }
    return inert_options_.set(level, name, value) ? 0 : -ENOPROTOOPT;
}

int Socket::set_buffer(int& buffer, int asked, int least) const {
    constexpr int kMost = 1 << 29;
    buffer = std::max(2 * std::clamp(asked, 0, kMost), least);
    return 0;
}

}  // namespace berth::internal::simulated
