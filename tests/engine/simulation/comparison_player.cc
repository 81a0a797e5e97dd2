// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/simulation/comparison_player.h"

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace berth::test {
namespace {

using internal::calls;

constexpr unsigned kEdgeEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

std::string outcome(std::int64_t result) {
    return result >= 0 ? std::to_string(result) : std::string(::strerrorname_np(errno));
}

std::string headline(const char* call, const ScriptStep& step) {
    return std::string(call) + '(' + std::to_string(step.first % ScriptPlayer::kSlotCount) + ") ";
}

std::string event_names(std::uint32_t events) {
    constexpr std::pair<std::uint32_t, const char*> kNames[] = {
        {EPOLLIN, "IN "},   {EPOLLOUT, "OUT "},     {EPOLLERR, "ERR "},
        {EPOLLHUP, "HUP "}, {EPOLLRDHUP, "RDHUP "}, {POLLNVAL, "NVAL "}};
    std::string text;
    for (const auto& [bit, name] : kNames) {
        if ((events & bit) != 0) text += name;
    }
    return text;
}

template <class Address>
sockaddr* generic(Address& address) {
    return reinterpret_cast<sockaddr*>(&address);
}

}  // namespace

ScriptPlayer::ScriptPlayer(ScriptFamily family, int epoll) : family_(family), epoll_(epoll) {}

ScriptPlayer::~ScriptPlayer() {
    for (const Slot& slot : slots_) {
        if (slot.fd >= 0) calls().close(slot.fd);
    }
    calls().close(epoll_);
}

int ScriptPlayer::free_slot() const {
    const auto free = std::ranges::find(slots_, -1, &Slot::fd);
    return free == slots_.end() ? -1 : static_cast<int>(free - slots_.begin());
}

void ScriptPlayer::fill_slot(std::size_t slot, int fd, int type) {
    slots_[slot] = {fd, type};
    epoll_event event{};
    event.events = kEdgeEvents;
    event.data.u32 = static_cast<std::uint32_t>(slot);
    calls().epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

std::string ScriptPlayer::play(const ScriptStep& step) {
    using Action = std::string (ScriptPlayer::*)(const ScriptStep&);
    static constexpr Action kActions[] = {
        &ScriptPlayer::open,       &ScriptPlayer::open,      &ScriptPlayer::bind,
        &ScriptPlayer::bind,       &ScriptPlayer::listen,    &ScriptPlayer::listen,
        &ScriptPlayer::connect,    &ScriptPlayer::connect,   &ScriptPlayer::connect,
        &ScriptPlayer::connect,    &ScriptPlayer::accept,    &ScriptPlayer::accept,
        &ScriptPlayer::accept,     &ScriptPlayer::send,      &ScriptPlayer::send,
        &ScriptPlayer::send,       &ScriptPlayer::send_to,   &ScriptPlayer::receive,
        &ScriptPlayer::receive,    &ScriptPlayer::receive,   &ScriptPlayer::receive,
        &ScriptPlayer::shutdown,   &ScriptPlayer::close,     &ScriptPlayer::read_error,
        &ScriptPlayer::set_option, &ScriptPlayer::bind_like, &ScriptPlayer::names};
    return (this->*kActions[step.what % std::size(kActions)])(step);
}

std::string ScriptPlayer::open(const ScriptStep& step) {
    const int slot = free_slot();
    if (slot < 0) {
        return "no slot";
    }
    int domain = step.second % 3 == 0 ? AF_INET6 : AF_INET;
    int type = family_ == ScriptFamily::udp ? SOCK_DGRAM : SOCK_STREAM;
    if (family_ == ScriptFamily::unix) {
        constexpr std::array kTypes = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
        domain = AF_UNIX;
        type = kTypes[step.second % kTypes.size()];
    }
    const int fd = calls().socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        fill_slot(static_cast<std::size_t>(slot), fd, type);
    }
    return "open " + std::to_string(slot);
}

// The name that bind() gives to a slot.
socklen_t ScriptPlayer::own_address(unsigned number, sockaddr_storage& storage) const {
    if (family_ == ScriptFamily::unix) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string name = "berth-script-" + std::to_string(::getpid()) + '-' +
                                 std::to_string(number % kSlotCount);
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        std::memcpy(&storage, &address, sizeof(address));
        return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }
    int domain = 0;
    socklen_t size = sizeof(domain);
    calls().getsockopt(fd_of(number), SOL_SOCKET, SO_DOMAIN, &domain, &size);
    if (domain == AF_INET6) {
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        std::memcpy(&storage, &address, sizeof(address));
        return sizeof(address);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::memcpy(&storage, &address, sizeof(address));
    return sizeof(address);
}

// Where a slot can be reached by IPv4; a port that nobody has for one without.
socklen_t ScriptPlayer::address_of(unsigned number, sockaddr_storage& storage) const {
    if (family_ == ScriptFamily::unix) {
        return own_address(number, storage);
    }
    sockaddr_in6 own{};
    socklen_t size = sizeof(own);
    calls().getsockname(fd_of(number), generic(own), &size);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = own.sin6_port != 0 ? own.sin6_port : htons(9);
    std::memcpy(&storage, &address, sizeof(address));
    return sizeof(address);
}

std::string ScriptPlayer::bind(const ScriptStep& step) {
    sockaddr_storage storage{};
    const socklen_t size = own_address(step.first, storage);
    return headline("bind", step) +
           outcome(calls().bind(fd_of(step.first), generic(storage), size));
}

// To the name of another.
std::string ScriptPlayer::bind_like(const ScriptStep& step) {
    sockaddr_storage storage{};
    const socklen_t size = address_of(step.second, storage);
    sockaddr_storage own{};
    if (family_ != ScriptFamily::unix && own_address(step.first, own) == sizeof(sockaddr_in6)) {
        return "no bind";
    }
    if (family_ != ScriptFamily::unix &&
        reinterpret_cast<const sockaddr_in&>(storage).sin_port == htons(9)) {
        return "no port";
    }
    return headline("bind like", step) +
           outcome(calls().bind(fd_of(step.first), generic(storage), size));
}

std::string ScriptPlayer::listen(const ScriptStep& step) {
    return headline("listen", step) +
           outcome(calls().listen(fd_of(step.first), static_cast<int>(step.second % 3)));
}

std::string ScriptPlayer::connect(const ScriptStep& step) {
    const int fd = fd_of(step.first);
    sockaddr_storage storage{};
    socklen_t size = address_of(step.second, storage);
    sockaddr_storage own{};
    if (step.third % 16 == 0) {
        storage.ss_family = AF_UNSPEC;
    } else if (family_ != ScriptFamily::unix &&
               own_address(step.first, own) == sizeof(sockaddr_in6)) {
        // An IPv6 socket reaches IPv4 by the mapped address.
        const auto plain = reinterpret_cast<const sockaddr_in&>(storage);
        sockaddr_in6 mapped{};
        mapped.sin6_family = AF_INET6;
        mapped.sin6_port = plain.sin_port;
        mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
        std::memcpy(&mapped.sin6_addr.s6_addr[12], &plain.sin_addr, 4);
        std::memcpy(&storage, &mapped, sizeof(mapped));
        size = sizeof(mapped);
    }
    return headline("connect", step) + std::to_string(step.second % kSlotCount) + " = " +
           outcome(calls().connect(fd, generic(storage), size));
}

std::string ScriptPlayer::accept(const ScriptStep& step) {
    const int slot = free_slot();
    if (slot < 0) {
        return "no slot";
    }
    sockaddr_storage storage{};
    socklen_t size = sizeof(storage);
    const int fd = calls().accept4(fd_of(step.first), generic(storage), &size, SOCK_NONBLOCK);
    if (fd < 0) {
        return headline("accept", step) + outcome(fd);
    }
    fill_slot(static_cast<std::size_t>(slot), fd, slots_[step.first % kSlotCount].type);
    return headline("accept", step) + "= " + std::to_string(slot) + ' ' + name_text(storage, size);
}

std::string ScriptPlayer::send(const ScriptStep& step) {
    constexpr std::array<std::size_t, 5> kSizes = {1, 10, 100, 1000, 0};
    std::vector<std::uint8_t> data(kSizes[step.second % kSizes.size()]);
    for (std::uint8_t& byte : data) byte = next_byte_++;
    return headline("send", step) + std::to_string(data.size()) + " = " +
           outcome(calls().send(fd_of(step.first), data.data(), data.size(), MSG_NOSIGNAL));
}

std::string ScriptPlayer::send_to(const ScriptStep& step) {
    sockaddr_storage storage{};
    const socklen_t size = address_of(step.second, storage);
    std::vector<std::uint8_t> data(step.third % 200);
    for (std::uint8_t& byte : data) byte = next_byte_++;
    return headline("sendto", step) + std::to_string(step.second % kSlotCount) + ' ' +
           std::to_string(data.size()) + " = " +
           outcome(calls().sendto(fd_of(step.first), data.data(), data.size(), MSG_NOSIGNAL,
                                  generic(storage), size));
}

std::string ScriptPlayer::receive(const ScriptStep& step) {
    constexpr std::array<std::size_t, 5> kSizes = {7, 4096, 150, 1, 0};
    constexpr std::array kFlags = {0, 0, 0, int{MSG_PEEK}, int{MSG_TRUNC}, int{MSG_WAITALL}};
    std::vector<std::uint8_t> data(kSizes[step.second % kSizes.size()]);
    iovec part{data.data(), data.size()};
    sockaddr_storage from{};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof(from);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const int flags = kFlags[step.third % kFlags.size()] | MSG_DONTWAIT;
    const ssize_t result = calls().recvmsg(fd_of(step.first), &message, flags);
    std::string text = headline("recvmsg", step) + std::to_string(data.size()) + " flags " +
                       std::to_string(flags) + " = " + outcome(result);
    if (result >= 0) {
        unsigned sum = 0;
        const auto count = std::min(data.size(), static_cast<std::size_t>(result));
        for (std::size_t index = 0; index < count; ++index) sum = sum * 31 + data[index];
        text += " sum " + std::to_string(sum) + " msg_flags " +
                std::to_string(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) + " from " +
                name_text(from, message.msg_namelen);
    }
    return text;
}

std::string ScriptPlayer::shutdown(const ScriptStep& step) {
    const int how = static_cast<int>(step.second % 3);
    return headline("shutdown", step) + std::to_string(how) + " = " +
           outcome(calls().shutdown(fd_of(step.first), how));
}

std::string ScriptPlayer::close(const ScriptStep& step) {
    const int fd = fd_of(step.first);
    slots_[step.first % kSlotCount] = {};
    return headline("close", step) + outcome(calls().close(fd));
}

std::string ScriptPlayer::read_error(const ScriptStep& step) {
    int error = 0;
    socklen_t size = sizeof(error);
    const int result = calls().getsockopt(fd_of(step.first), SOL_SOCKET, SO_ERROR, &error, &size);
    return headline("SO_ERROR", step) + outcome(result) + ' ' + std::to_string(error);
}

std::string ScriptPlayer::set_option(const ScriptStep& step) {
    const linger abort_at_close{1, 0};
    const int on = 1;
    const int fd = fd_of(step.first);
    if (family_ == ScriptFamily::unix || step.second % 3 == 0) {
        return headline("SO_LINGER", step) +
               outcome(calls().setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort_at_close,
                                          sizeof(abort_at_close)));
    }
    const int name = step.second % 3 == 1 ? SO_REUSEADDR : SO_REUSEPORT;
    return headline("SO_REUSE*", step) +
           outcome(calls().setsockopt(fd, SOL_SOCKET, name, &on, sizeof(on)));
}

std::string ScriptPlayer::names(const ScriptStep& step) {
    sockaddr_storage own{};
    socklen_t own_size = sizeof(own);
    std::string text = headline("getsockname", step) +
                       outcome(calls().getsockname(fd_of(step.first), generic(own), &own_size));
    if (fd_of(step.first) >= 0) {
        text += ' ' + name_text(own, own_size);
    }
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof(peer);
    const int result = calls().getpeername(fd_of(step.first), generic(peer), &peer_size);
    text += " peer " + outcome(result);
    return result == 0 ? text + ' ' + name_text(peer, peer_size) : text;
}

std::string ScriptPlayer::name_text(const sockaddr_storage& storage, socklen_t size) {
    if (size == 0) {
        return "none";
    }
    if (storage.ss_family == AF_UNIX) {
        const auto& address = reinterpret_cast<const sockaddr_un&>(storage);
        const auto length = size - offsetof(sockaddr_un, sun_path);
        return "unix '" + std::string(address.sun_path, length).substr(length > 0 ? 1 : 0) + '\'';
    }
    // Both families have the port at the same place.
    const std::uint16_t port = reinterpret_cast<const sockaddr_in&>(storage).sin_port;
    const std::size_t number =
        port == 0 ? 0 : ports_.emplace(port, ports_.size() + 1).first->second;
    std::string host;
    if (storage.ss_family == AF_INET) {
        host = std::to_string(ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr));
    } else {
        const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
        for (const std::uint8_t byte : address.sin6_addr.s6_addr)
            host += std::to_string(byte) + '.';
    }
    return host + " port " + std::to_string(number) + " size " + std::to_string(size);
}

std::string ScriptPlayer::levels() {
    std::string text;
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
        const int fd = slots_[slot].fd;
        if (fd < 0) {
            continue;
        }
        pollfd entry{fd, POLLIN | POLLOUT | POLLRDHUP | POLLPRI, 0};
        constexpr timespec kNoTime{0, 0};
        calls().ppoll(&entry, 1, &kNoTime, nullptr);
        int unread = 0;
        const bool is_known = calls().ioctl(fd, FIONREAD, &unread) == 0;
        text += ' ' + std::to_string(slot) + ": " +
                event_names(static_cast<std::uint16_t>(entry.revents)) +
                (is_known ? std::to_string(unread) : std::string("-")) + '\n';
    }
    return text;
}

void ScriptPlayer::collect_edges(std::array<std::uint32_t, kSlotCount>& edges) {
    std::array<epoll_event, kSlotCount> events{};
    constexpr timespec kNoTime{0, 0};
    const int count = calls().epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()),
                                           &kNoTime, nullptr);
    for (int index = 0; index < count; ++index) {
        const epoll_event& event = events[static_cast<std::size_t>(index)];
        edges[event.data.u32] |= event.events;
    }
}

}  // namespace berth::test
