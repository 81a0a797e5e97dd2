// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/doorkeeper.h"

#include "tests/stress/stream_end.h"

#include <algorithm>
#include <string>
#include <utility>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;

}  // namespace

Doorkeeper::Doorkeeper(World& world) : Actor(world) { open(); }

void Doorkeeper::open() {
    Endpoint local = Address::loopback(Family::ipv4);
    if (world_.dice.chance(0.4)) {
        local = Endpoint::unix_path("@door-" + std::to_string(world_.next_name++)).value();
    }
    constexpr std::array kBacklogs = {1, 3, 100};
    Result<Listener> listener =
        Listener::open(world_.loop(), local, {.backlog = world_.dice.one_of(kBacklogs)});
    if (!listener) {
        is_closed_ = true;  // out of descriptors, or of memory
        return;
    }
    listener_ = std::move(*listener);
    world_.listening.push_back({listener_.local_endpoint().value(), false});
    accept_ = std::make_unique<Accept>(*this);
    accept();
}

void Doorkeeper::act() {
    if (is_closed_ || world_.is_winding_down) {
        return;
    }
    const std::uint64_t roll = world_.dice.below(100);
    if (roll < 70) {
        accept();
    } else if (roll < 85) {
        accept_->operation.cancel();
    } else if (roll < 90) {
        throw_away();
    } else if (roll < 93) {
        wind_down();
    }
}

void Doorkeeper::accept() {
    if (!accept_->operation.is_free()) {
        return;
    }
    const std::size_t most = 1 + world_.dice.below(accept_->sockets.size());
    accept_->operation.start(world_.dice.deadline(20ms), [&](Deadline deadline) {
        return listener_.accept(accept_->operation, std::span(accept_->sockets).first(most),
                                deadline);
    });
}

void Doorkeeper::accepted() {
    const std::array<int, 4> sockets = accept_->sockets;
    const std::size_t count = accept_->operation.count();
    if (!accept_->operation.has_failed() && count == 0) {
        world_.findings.add("accept succeeds with nothing");
    }
    const bool is_in_trouble = accept_->operation.has_failed();
    for (const int socket : std::span(sockets).first(count)) {
        welcome(socket);
    }
    if (!is_closed_ && !is_in_trouble && !world_.is_winding_down && world_.dice.chance(0.8)) {
        accept();
    }
}

void Doorkeeper::welcome(int socket) {
    if (is_closed_ || world_.is_loop_ending) {
        Descriptor(socket).reset();
        return;
    }
    Result<Stream> stream = listener_.take(socket);
    if (!stream) {
        return;
    }
    const Result<Endpoint> remote = stream->remote_endpoint();
    if (!remote) {
        return;  // it has gone again
    }
    const auto known = world_.connections.find(name_of(*remote));
    if (known == world_.connections.end()) {
        world_.findings.add("an accepted connection is nobody's: " + remote->to_string());
        return;
    }
    auto* end = world_.add<StreamEnd>(std::move(*stream), known->second, false);
    if (world_.is_winding_down) end->wind_down();
}

// The connections of a result that was there already go with it.
void Doorkeeper::throw_away() { accept_ = std::make_unique<Accept>(*this); }

void Doorkeeper::wind_down() {
    if (std::exchange(is_closed_, true)) {
        return;
    }
    const Endpoint local = listener_.local_endpoint().value_or(Endpoint());
    std::erase_if(world_.listening, [&](const auto& one) { return one.endpoint == local; });
    const InsideCall inside(world_);
    listener_.close();
}

}  // namespace berth::test::stress
