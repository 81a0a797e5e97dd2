// SPDX-License-Identifier: Apache-2.0

// What an end of a connection sends and receives.

#include "tests/stress/stream_end.h"

#include <algorithm>
#include <utility>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;

}  // namespace

std::span<const std::byte> StreamEnd::choose_bytes(std::size_t largest) {
    const std::size_t size = world_.dice.size(largest);
    return Flow::noise().subspan(world_.dice.below(Flow::noise().size() - size), size);
}

void StreamEnd::send() {
    forget_finished(sends_);
    if (is_closed_ || is_enough() || sends_.size() >= kMostPending) {
        return;
    }
    Flow::Chunk& chunk = out().hand_over(choose_bytes(150'000));
    const std::size_t size = chunk.bytes.size();
    Send& send = *sends_.emplace_back(std::make_unique<Send>(*this, chunk));
    auto* bytes = const_cast<std::byte*>(chunk.bytes.data());
    if (world_.dice.chance(0.3)) {
        const std::size_t cut = world_.dice.below(size + 1);
        send.parts = {{bytes, cut}, {bytes + cut, 0}, {bytes + cut, size - cut}};
    }
    send.operation.start(world_.dice.deadline(50ms), [&](Deadline deadline) {
        return send.parts.empty() ? stream_.send(send.operation, chunk.bytes, deadline)
                                  : stream_.send(send.operation, send.parts, deadline);
    });
}

void StreamEnd::write() {
    if (is_enough()) {
        return;
    }
    if (world_.dice.chance(0.1)) {
        static_cast<void>(stream_.set_watermarks({.low = 1000, .high = 20'000}));
    }
    const std::span<const std::byte> bytes = choose_bytes(60'000);
    out().may_be_cut = out().may_be_cut || is_shut_down_;
    // A part of what cannot be queued may have gone out.
    out().hand_over(bytes).sent = bytes.size();
    const InsideCall inside(world_);
    if (!stream_.write(bytes)) {
        disturb();
    }
}

void StreamEnd::receive() {
    forget_finished(lent_receives_);
    forget_finished(own_receives_);
    if (is_closed_) {
        return;
    }
    const Deadline deadline = world_.dice.deadline(30ms);
    if (world_.dice.chance(0.6) && lent_receives_.size() < kMostPending) {
        auto& receive = *lent_receives_.emplace_back(std::make_unique<LentReceive>(*this));
        receive.operation.start(
            deadline, [&](Deadline when) { return stream_.receive(receive.operation, when); });
    } else if (own_receives_.size() < kMostPending) {
        auto& receive = *own_receives_.emplace_back(
            std::make_unique<OwnReceive>(*this, world_.dice.size(100'000)));
        receive.operation.start(deadline, [&](Deadline when) {
            return receive.parts.empty() ? stream_.receive(receive.operation, receive.buffer, when)
                                         : stream_.receive(receive.operation, receive.parts, when);
        });
    }
}

std::shared_ptr<StreamEnd::Arrival> StreamEnd::await_arrival() {
    return arrivals_.emplace_back(std::make_shared<Arrival>());
}

void StreamEnd::take_arrivals() {
    while (!arrivals_.empty() && arrivals_.front()->is_there) {
        const std::shared_ptr<Arrival> arrival = arrivals_.front();
        arrivals_.pop_front();
        if (!arrival->bytes.empty() && in().has_ended) {
            world_.findings.add("bytes come after the end of the stream");
        }
        in().take(arrival->bytes);
        in().has_ended = in().has_ended || arrival->is_end;
    }
}

void StreamEnd::received(Arrival& arrival, std::span<const std::byte> bytes, int system_errno) {
    arrival.bytes.assign(bytes.begin(), bytes.end());
    arrival.is_end = bytes.empty() && system_errno == 0;
    arrival.is_there = true;
    take_arrivals();
    failed(system_errno);
    const bool goes_on = !bytes.empty() || system_errno == ETIMEDOUT;
    if (is_closed_ || world_.is_winding_down || world_.is_loop_ending) {
        return;
    }
    if (goes_on && world_.dice.chance(0.9)) receive();
    if (world_.dice.chance(goes_on ? 0.15 : 0.5)) act();
    if (!goes_on && world_.dice.chance(0.5)) close();
}

}  // namespace berth::test::stress
