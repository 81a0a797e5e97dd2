// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/bpf/maps.h"

#include "src/ports/namespace_settings.h"

#include <bpf/bpf.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace berth::internal::bpf {
namespace {

constexpr std::uint32_t kZero = 0;
constexpr std::size_t kMaxPairs = std::size_t{1} << 20;

Result<Descriptor> open_pinned(const std::string& directory, const char* name) {
    const std::string path = directory + "/" + name;
    Descriptor map(::bpf_obj_get(path.c_str()));
    if (map.is_open()) {
        return map;
    }
    if (errno == ENOENT) {
        return std::unexpected(Error(Errc::not_holder, "open", path, errno, "nothing is attached",
                                     "see 'berth attach'"));
    }
    return std::unexpected(
        Error::from_errno(errno, "open", path, "this needs root, or CAP_BPF and CAP_NET_ADMIN"));
}

template <class Key>
std::vector<Key> keys_of(int map, std::size_t limit) {
    std::vector<Key> keys;
    Key key{};
    const Key* previous = nullptr;
    while (keys.size() < limit && ::bpf_map_get_next_key(map, previous, &key) == 0) {
        keys.push_back(key);
        previous = &keys.back();
    }
    return keys;
}

}  // namespace

Result<Maps> Maps::open(const std::string& directory) {
    Maps maps;
    maps.settings = BERTH_TRY(open_pinned(directory, "settings"));
    maps.tables = BERTH_TRY(open_pinned(directory, "tables"));
    maps.pairs = BERTH_TRY(open_pinned(directory, "pairs"));
    const berth_settings settings = BERTH_TRY(maps.read_settings());
    if (settings.version != BERTH_TABLE_VERSION || settings.table_size != sizeof(berth_table)) {
        return std::unexpected(Error(Errc::table_mismatch, "open", directory, 0,
                                     "another version of berth is attached",
                                     "run 'berth detach', and attach anew"));
    }
    return maps;
}

Result<berth_settings> Maps::read_settings() const {
    bpf_map_info info{};
    std::uint32_t size = sizeof(info);
    berth_settings read{};
    if (::bpf_obj_get_info_by_fd(settings.get(), &info, &size) != 0) {
        return std::unexpected(Error::from_errno(errno, "read settings"));
    }
    if (info.value_size != sizeof(read)) {
        return std::unexpected(Error(Errc::table_mismatch, "read settings", {}, 0,
                                     "another version of berth is attached",
                                     "run 'berth detach', and attach anew"));
    }
    if (::bpf_map_lookup_elem(settings.get(), &kZero, &read) != 0) {
        return std::unexpected(Error::from_errno(errno, "read settings"));
    }
    return read;
}

Result<void> Maps::write_settings(const berth_settings& wanted) const {
    if (::bpf_map_update_elem(settings.get(), &kZero, &wanted, BPF_ANY) != 0) {
        return std::unexpected(Error::from_errno(errno, "write settings"));
    }
    return {};
}

std::vector<berth_table_key> Maps::keys() const {
    return keys_of<berth_table_key>(tables.get(), 4096);
}

Result<std::optional<TableMap>> Maps::table(const berth_table_key& key) const {
    std::uint32_t id = 0;
    if (::bpf_map_lookup_elem(tables.get(), &key, &id) != 0) {
        return std::nullopt;
    }
    Descriptor map(::bpf_map_get_fd_by_id(id));
    if (!map.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open port table"));
    }
    return BERTH_TRY(TableMap::open(std::move(map)));
}

Result<void> Maps::add(const berth_table_key& key, const TableMap& table) const {
    const int map = table.fd();
    if (::bpf_map_update_elem(tables.get(), &key, &map, BPF_ANY) != 0) {
        return std::unexpected(Error::from_errno(errno, "add port table"));
    }
    return {};
}

void Maps::remove(const berth_table_key& key) const { ::bpf_map_delete_elem(tables.get(), &key); }

void Maps::sweep_pairs() const {
    const std::uint64_t now = monotonic_ms();
    std::vector<std::pair<std::uint64_t, TableMap>> known;
    for (const berth_table_key& key : keys()) {
        if (key.protocol != number_of(Protocol::tcp)) continue;
        Result<std::optional<TableMap>> each = table(key);
        if (each && *each) known.emplace_back(key.netns_cookie, std::move(**each));
    }
    for (const berth_pair& pair : keys_of<berth_pair>(pairs.get(), kMaxPairs)) {
        std::uint64_t from_ms = 0;
        if (::bpf_map_lookup_elem(pairs.get(), &pair, &from_ms) != 0) continue;
        const auto at =
            std::ranges::find(known, pair.netns_cookie, &std::pair<std::uint64_t, TableMap>::first);
        const bool is_orphan = at == known.end() || at->second.owner(pair.port) == 0;
        if (from_ms != 0 ? from_ms < now : is_orphan) {
            ::bpf_map_delete_elem(pairs.get(), &pair);
        }
    }
}

Result<std::uint64_t> own_netns_cookie() {
    const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    std::uint64_t cookie = 0;
    socklen_t size = sizeof(cookie);
    if (!socket.is_open() ||
        ::getsockopt(socket.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) != 0) {
        return std::unexpected(Error::from_errno(errno, "read SO_NETNS_COOKIE"));
    }
    return cookie;
}

Result<AllowedPorts> read_allowed_ports(const berth_settings& settings) {
    const NamespaceSettings own = BERTH_TRY(read_namespace_settings());
    AllowedPorts allowed{
        .range = own.range, .ports = {}, .time_wait_rests = read_time_wait_rests()};
    if (settings.first != 0) {
        allowed.range = {settings.first, settings.last};
    }
    // The kernel lets everybody bind 0, also where the port it then chooses is a privileged one;
    // a port that a program writes needs the privilege.
    const unsigned first = std::max<unsigned>(allowed.range.first, own.unprivileged_start);
    for (unsigned port = first; port <= allowed.range.last; ++port) {
        add_port(allowed.ports, port);
    }
    for (const PortRange& reserved : own.reserved) {
        for (unsigned port = reserved.first; port <= reserved.last; ++port) {
            allowed.ports[port / 64] &= ~(std::uint64_t{1} << (port % 64));
        }
    }
    for (unsigned i = 0; i < BERTH_WORDS; ++i) {
        allowed.ports[i] &= ~settings.excluded[i];
    }
    return allowed;
}

}  // namespace berth::internal::bpf
