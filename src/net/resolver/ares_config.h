// SPDX-License-Identifier: Apache-2.0
#pragma once

// What all channels of a resolver have in common: its options, completed from /etc/resolv.conf and
// the environment once, when the resolver is made.

#include <berth/error.h>
#include <berth/resolver.h>

#include <ares.h>

#include <memory>

namespace berth::internal {

struct AresChannelDeleter {
    // c-ares 1.18 mishandles queries that are pending when a channel is destroyed.
    void operator()(ares_channel channel) const noexcept {
        ares_cancel(channel);
        ares_destroy(channel);
    }
};
using AresChannel = std::unique_ptr<ares_channeldata, AresChannelDeleter>;

class AresConfig {
public:
    /// **Errors:** invalid_argument, out_of_memory.
    static Result<AresConfig> read(const ResolverOptions& options);

    AresConfig(AresConfig&& other) noexcept;
    AresConfig& operator=(AresConfig&&) = delete;
    ~AresConfig();

    /// A channel that tells `on_state(data, …)` which of its sockets it waits for.
    Result<AresChannel> open_channel(ares_sock_state_cb on_state, void* data) const;

private:
    struct ServersDeleter {
        void operator()(ares_addr_port_node* servers) const noexcept { ares_free_data(servers); }
    };

    AresConfig() noexcept = default;

    ares_options options_{};
    int mask_ = 0;
    std::unique_ptr<ares_addr_port_node, ServersDeleter> servers_;
};

}  // namespace berth::internal
