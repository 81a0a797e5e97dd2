// SPDX-License-Identifier: Apache-2.0
#pragma once

// The test process itself as the program that berth covers: a network namespace with a small range,
// and a cgroup of its own with the programs attached. All of it goes with the process; a cgroup
// that a killed test has left is removed by the next.
//
//   ┌ test process ┐ fork ┌ child: own net ns, own mount ns; cgroup berth-run.N ┐
//   │  waits       │ ───▶ │  bind4 … sock_release attached to it · body(covered) │
//   └──────────────┘      └──────────────────────────────────────────────────────┘

#include "src/interpose/bpf/cover.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <berth/address.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace berth::test {

inline constexpr PortRange kSmallRange = {40000, 40099};
inline constexpr Protocol kUdp = Protocol::udp;
inline constexpr Protocol kTcp = Protocol::tcp;

class Covered {
public:
    explicit Covered(internal::bpf::Cover& cover) : cover_(cover) {}

    internal::bpf::Cover& cover() noexcept { return cover_; }
    /// The table of this network namespace.
    internal::bpf::TableMap table(Protocol protocol);
    berth_kind owner_kind(Protocol protocol, std::uint16_t port);
    internal::bpf::LookReport look();
    /// Looks until what is only believed the second time is believed.
    void look_thoroughly();
    /// Whether the table says of every port what the kernel says.
    testing::AssertionResult is_true(Protocol protocol);

private:
    internal::bpf::Cover& cover_;
};

/// Skips with the reason where programs cannot be attached.
void in_covered_namespace(const NamespaceOptions& options,
                          const internal::bpf::CoverOptions& cover_options,
                          const std::function<void(Covered&)>& body);
inline void in_covered_namespace(const std::function<void(Covered&)>& body) {
    in_covered_namespace({.range = kSmallRange}, {}, body);
}

/// The socket that bind(0) has bound, or its errno. As a program would: no berth in between.
struct Bound {
    Descriptor socket;
    int error = 0;
    std::uint16_t port = 0;
};
Bound bind_zero(Protocol protocol, const Address& local);
inline Bound bind_zero(Protocol protocol, Family family = Family::ipv4) {
    return bind_zero(protocol, Address::any(family));
}
Bound bind_to(Protocol protocol, const Address& local, bool is_reusing_port = false);
/// connect() of a new socket without bind().
Bound connect_new(Protocol protocol, const Address& remote);
inline Address at(std::uint16_t port) { return Address::loopback(Family::ipv4, port); }
/// A listener outside the range, so that it takes no port of it.
inline Descriptor server(std::uint16_t port) { return listener(at(port)); }
/// Binds until it is refused.
std::vector<Bound> bind_all(Protocol protocol);

}  // namespace berth::test
