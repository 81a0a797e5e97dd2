// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/transfer.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace berth::internal::simulated {

class UnixSocket;

/// The names of AF_UNIX sockets: paths of a file system that holds nothing else, and abstract
/// names, which begin with a zero byte and of which each type of socket has its own. A path stays
/// when its socket closes, until unlink().
class UnixNames {
public:
    bool is_taken(const std::string& name, int type) const {
        return sockets_.contains(key(name, type));
    }
    /// Null: nobody of that name, or it has closed.
    std::shared_ptr<UnixSocket> find(const std::string& name, int type) const;
    void add(const std::string& name, int type, const std::shared_ptr<UnixSocket>& socket) {
        sockets_[key(name, type)] = socket;
    }
    /// Its socket has closed.
    void release(const std::string& name, int type);
    /// 0 or -ENOENT.
    int unlink(const std::string& path);
    /// An abstract name that nobody has.
    std::string make_name(int type);

private:
    using Key = std::pair<std::string, int>;

    static Key key(const std::string& name, int type) {
        return {name, name.starts_with('\0') ? type : 0};
    }

    std::map<Key, std::weak_ptr<UnixSocket>> sockets_;
    unsigned made_count_ = 0;
};

inline bool is_abstract(const std::string& name) { return name.starts_with('\0'); }

/// The bytes of sun_path without the zero at the end; "" for no name at all. 0 or minus errno.
int read_unix_name(const sockaddr* from, socklen_t size, std::string& name);
SocketName unix_name_of(const std::string& name);

}  // namespace berth::internal::simulated
