// SPDX-License-Identifier: Apache-2.0
#include "src/net/resolver/ares_config.h"

#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

Error setup_error(int status) noexcept {
    if (status == ARES_ENOMEM) {
        return Error::from_errno(ENOMEM, "set up", "name resolution");
    }
    return {Errc::system, "set up", "name resolution", 0, ares_strerror(status)};
}

Error refusal(const char* what, const char* reason) noexcept {
    return {Errc::invalid_argument, "set up name resolution with", what, 0, reason};
}

Result<void> check(const ResolverOptions& options) {
    if (options.timeout.count() < 1 || options.timeout.count() > 3'600'000) {
        return std::unexpected(refusal("timeout", "it is 1 ms to 1 hour"));
    }
    if (options.tries < 1 || options.tries > 100) {
        return std::unexpected(refusal("tries", "they are 1 to 100"));
    }
    if (options.concurrency < 1 || options.concurrency > 4096) {
        return std::unexpected(refusal("concurrency", "it is 1 to 4096"));
    }
    for (const Address& server : options.servers) {
        if (server.scope_id() != 0) {
            return std::unexpected(refusal("server", "its address has a scope (%interface)"));
        }
    }
    return {};
}

Result<void> initialise_library() {
    static const int status = ares_library_init(ARES_LIB_INIT_ALL);
    if (status != ARES_SUCCESS) {
        return std::unexpected(setup_error(status));
    }
    return {};
}

ares_addr_port_node node_of(const Address& server) noexcept {
    const Address address = server.unmapped();
    ares_addr_port_node node{};
    node.family = address.family() == Family::ipv4 ? AF_INET : AF_INET6;
    std::memcpy(&node.addr, address.bytes().data(), sizeof node.addr);
    node.udp_port = address.port() != 0 ? address.port() : 53;
    node.tcp_port = node.udp_port;
    return node;
}

int set_servers(ares_channel channel, const std::vector<Address>& servers) {
    if (servers.empty()) {
        return ARES_SUCCESS;
    }
    std::vector<ares_addr_port_node> nodes;
    nodes.reserve(servers.size());
    for (const Address& server : servers) {
        nodes.push_back(node_of(server));
        if (nodes.size() > 1) {
            nodes[nodes.size() - 2].next = &nodes.back();
        }
    }
    return ares_set_servers_ports(channel, nodes.data());
}

// c-ares reads the files of the system for whatever is not in the mask.
int init_channel(AresChannel& channel, const ResolverOptions& options) {
    ares_options given{};
    int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS;
    given.timeout = static_cast<int>(options.timeout.count());
    given.tries = options.tries;
    std::string lookups = options.uses_hosts_file ? "fb" : "b";
    given.lookups = lookups.data();
    std::vector<std::string> domains = options.search_domains.value_or(std::vector<std::string>());
    std::vector<char*> pointers;
    if (options.search_domains) {
        for (std::string& domain : domains) {
            pointers.push_back(domain.data());
        }
        mask |= ARES_OPT_DOMAINS;
        given.domains = pointers.data();
        given.ndomains = static_cast<int>(pointers.size());
    }
    ares_channel made = nullptr;
    const int status = ares_init_options(&made, &given, mask);
    channel.reset(status == ARES_SUCCESS ? made : nullptr);
    return status;
}

}  // namespace

AresConfig::AresConfig(AresConfig&& other) noexcept
    : options_(std::exchange(other.options_, {})),
      mask_(other.mask_),
      servers_(std::move(other.servers_)) {}

AresConfig::~AresConfig() { ares_destroy_options(&options_); }

Result<AresConfig> AresConfig::read(const ResolverOptions& options) {
    BERTH_TRY(check(options));
    BERTH_TRY(initialise_library());
    AresChannel channel;
    AresConfig config;
    ares_addr_port_node* servers = nullptr;
    int status = init_channel(channel, options);
    if (status == ARES_SUCCESS) {
        status = set_servers(channel.get(), options.servers);
    }
    if (status == ARES_SUCCESS) {
        status = ares_get_servers_ports(channel.get(), &servers);
        config.servers_.reset(servers);
    }
    if (status == ARES_SUCCESS) {
        status = ares_save_options(channel.get(), &config.options_, &config.mask_);
    }
    if (status != ARES_SUCCESS) {
        return std::unexpected(setup_error(status));
    }
    return config;
}

Result<AresChannel> AresConfig::open_channel(ares_sock_state_cb on_state, void* data) const {
    ares_options options = options_;
    options.sock_state_cb = on_state;
    options.sock_state_cb_data = data;
    ares_channel made = nullptr;
    int status = ares_init_options(&made, &options, mask_ | ARES_OPT_SOCK_STATE_CB);
    AresChannel channel(status == ARES_SUCCESS ? made : nullptr);
    if (status == ARES_SUCCESS) {
        status = ares_set_servers_ports(channel.get(), servers_.get());
    }
    if (status != ARES_SUCCESS) {
        return std::unexpected(setup_error(status));
    }
    return channel;
}

}  // namespace berth::internal
