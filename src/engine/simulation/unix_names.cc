// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/unix_names.h"

#include "src/engine/simulation/unix_socket.h"

#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace berth::internal::simulated {
namespace {

constexpr std::size_t kPathOffset = offsetof(sockaddr_un, sun_path);

}  // namespace

std::shared_ptr<UnixSocket> UnixNames::find(const std::string& name, int type) const {
    const auto found = sockets_.find(key(name, type));
    return found == sockets_.end() ? nullptr : found->second.lock();
}

void UnixNames::release(const std::string& name, int type) {
    const auto found = sockets_.find(key(name, type));
    if (found == sockets_.end()) {
        return;
    }
    if (is_abstract(name)) {
        sockets_.erase(found);
    } else {
        found->second.reset();
    }
}

int UnixNames::unlink(const std::string& path) {
    return sockets_.erase(key(path, 0)) == 1 ? 0 : -ENOENT;
}

std::string UnixNames::make_name(int type) {
    std::array<char, 8> digits{};
    std::string name;
    do {
        std::snprintf(digits.data(), digits.size(), "%05x", ++made_count_ & 0xfffff);
        name = std::string(1, '\0') + digits.data();
    } while (is_taken(name, type));
    return name;
}

int read_unix_name(const sockaddr* from, socklen_t size, std::string& name) {
    sockaddr_un copy{};
    if (size < kPathOffset || size > sizeof(copy)) {
        return -EINVAL;
    }
    std::memcpy(&copy, from, size);
    if (copy.sun_family != AF_UNIX) {
        return -EINVAL;
    }
    const std::size_t room = size - kPathOffset;
    const bool has_path = room > 0 && copy.sun_path[0] != '\0';
    name.assign(copy.sun_path, has_path ? ::strnlen(copy.sun_path, room) : room);
    return 0;
}

SocketName unix_name_of(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), std::min(name.size(), sizeof(address.sun_path)));
    SocketName result;
    std::memcpy(&result.storage, &address, sizeof(address));
    const bool is_path = !name.empty() && !is_abstract(name);
    result.size = static_cast<socklen_t>(kPathOffset + name.size() + (is_path ? 1 : 0));
    return result;
}

}  // namespace berth::internal::simulated
