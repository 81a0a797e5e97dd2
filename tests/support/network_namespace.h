// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a test body in a child process with a network namespace of its own, where lo is up and the
// port range is what the test says. Nothing of the host is touched; the namespace goes with the
// child. Without privileges a user namespace is made first.
//
//   ┌ test process ┐ fork  ┌ child: own user ns (if not root), own net ns ┐
//   │  waits       │ ────▶ │  lo up · ip_local_port_range set · body()    │
//   └──────────────┘       └──────────────────────────────────────────────┘

#include <berth/socket.h>

#include <functional>
#include <string>

namespace berth::test {

struct NamespaceOptions {
    PortRange range = {32768, 33791};
    std::string reserved = {};      // ip_local_reserved_ports
    bool disable_ipv6 = false;      // net.ipv6.conf.*.disable_ipv6 = 1
    bool drop_privileges = false;   // the body runs as an ordinary user without capabilities
    unsigned descriptor_limit = 0;  // RLIMIT_NOFILE; 0 = as it is
    unsigned timeout_seconds = 60;  // then the child is killed and the test fails
};

/// Fails the current test when the body has a failed expectation, crashes, or takes too long.
/// Skips it, with the reason, where no namespace can be made.
void in_network_namespace(const NamespaceOptions& options, const std::function<void()>& body);
inline void in_network_namespace(const std::function<void()>& body) {
    in_network_namespace({}, body);
}

}  // namespace berth::test
