// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/address_io.h"
#include "src/engine/simulation/port_registry.h"
#include "src/engine/simulation/socket.h"

#include <berth/address.h>
#include <berth/socket.h>

#include <cstdint>
#include <optional>

namespace berth::internal::simulated {

/// What TCP and UDP sockets have in common: names, ports, and the options that decide about them.
class InternetSocket : public Socket {
public:
    InternetSocket(Kernel& kernel, Kind kind);
    ~InternetSocket() override { release_port(); }

    int bind(const sockaddr* address, socklen_t size) override;
    SocketName local_name() const override { return name_of(local_, family()); }
    std::optional<SocketName> peer_name() const override;

    Family family() const noexcept { return kind_.domain == AF_INET ? Family::ipv4 : Family::ipv6; }
    const Address& local() const noexcept { return local_; }
    const Address& remote() const noexcept { return remote_; }

protected:
    bool has_port() const noexcept { return claimed_port_ != 0; }
    /// Whether connect() may look for a port, or has to use the one there is.
    virtual bool is_unconnected() const = 0;

    /// What a connect() or sendto() was given, as an address to send to: 0 or minus errno.
    int read_destination(const sockaddr* from, socklen_t size, Address& address) const;
    /// Takes this port, or minus errno.
    int take_port(std::uint16_t port);
    /// Looks for a free port of the range; -EADDRINUSE: there is none.
    int choose_port();
    /// The ports of the range in the order in which they are to be tried: from a random one on.
    std::uint32_t range_size() const noexcept { return port_range().size(); }
    std::uint16_t range_port(std::uint32_t start, std::uint32_t index) const noexcept;
    void claim_port(std::uint16_t port, bool is_by_connect);
    void release_port();
    /// The host part of the local name; the claim follows it.
    void set_local_host(const Address& host);
    /// After a disconnect what connect() has chosen goes, what bind() was told stays.
    void forget_chosen_name();
    /// For a connection that a listener makes.
    void copy_name_options(const InternetSocket& from);
    std::string describe_names() const;

    std::optional<int> get_own_option(int level, int name) override;
    std::optional<int> set_own_option(int level, int name, int value) override;

    PortRegistry& registry() const noexcept;

    Address local_;   // unmapped; the port may outlive the claim, as in getsockname()
    Address remote_;  // unmapped; port 0: none
    PortClaim claim_;
    bool is_host_named_ = false;  // by bind()
    bool is_port_named_ = false;
    bool is_v6_only_ = false;

private:
    int read_bind_address(const sockaddr* from, socklen_t size, Address& address) const;
    PortRange port_range() const noexcept;
    void update_claim();

    std::uint16_t claimed_port_ = 0;
    bool binds_without_port_ = false;  // IP_BIND_ADDRESS_NO_PORT
    std::uint32_t own_range_ = 0;      // IP_LOCAL_PORT_RANGE
};

}  // namespace berth::internal::simulated
