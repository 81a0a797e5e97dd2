// SPDX-License-Identifier: Apache-2.0
// Binds a UDP socket to a fresh, unguessable local port and prints its number.
#include <berth/ports.h>

#include <cstdio>

static berth::Result<void> bind_fresh_port() {
    auto ports = BERTH_TRY(berth::PortTable::create(berth::Protocol::udp));
    auto socket = BERTH_TRY(berth::udp_socket(berth::Family::ipv4));
    auto port = BERTH_TRY(ports.bind(socket, berth::Address::any(berth::Family::ipv4)));
    std::printf("%u\n", unsigned{port.number()});
    socket.close();
    return {};
}  // the port goes back to the table, rests, and is free again

int main() {
    const auto done = bind_fresh_port();
    if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return done ? 0 : 1;
}
