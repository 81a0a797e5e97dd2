// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/world.h"

#include <algorithm>
#include <utility>

namespace berth::test::stress {

std::size_t Dice::size(std::size_t largest) noexcept {
    switch (below(8)) {
        case 0:
            return below(3);
        case 1:
            return below(largest + 1);
        case 2:
            return below(largest / 8 + 1);
        default:
            return below(std::min<std::size_t>(largest, 600) + 1);
    }
}

std::chrono::nanoseconds Dice::duration(std::chrono::nanoseconds longest) noexcept {
    const auto most = static_cast<std::uint64_t>(longest.count());
    const std::uint64_t bound = below(3) == 0 ? most : most / 20;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(below(bound + 1)));
}

Deadline Dice::deadline(std::chrono::nanoseconds longest) noexcept {
    return chance(0.5) ? within(duration(longest)) : kNoDeadline;
}

void Findings::add(std::string_view text) {
    if (texts_.size() < kMost) {
        texts_.emplace_back(text);
    }
}

std::string Findings::text() const {
    std::string all;
    for (const std::string& text : texts_) {
        all += "  " + text + '\n';
    }
    return all;
}

World::World(std::uint64_t seed, EngineKind engine, internal::SimulationOptions options)
    : dice(seed), simulation_(std::move(options)) {
    loop_.emplace(Loop::create({.engine = engine}).value());
}

// Sockets and timers go before the loop does.
World::~World() { actors_.clear(); }

void World::wind_down() {
    is_winding_down = true;
    for (std::size_t i = 0; i < actors_.size(); ++i) {
        actors_[i]->wind_down();
    }
}

void World::end_loop() {
    is_loop_ending = true;
    loop_.reset();
}

void World::check() {
    for (const auto& actor : actors_) {
        actor->check();
    }
    for (const auto& [name, connection] : connections) {
        for (const Flow* flow : {&connection->forth, &connection->back}) {
            if (const std::optional<std::string> complaint = flow->complaint()) {
                findings.add(name + (flow == &connection->forth ? ", from" : ", to") +
                             " the client: " + *complaint);
            }
        }
    }
    if (expected_count != 0) {
        findings.add(std::to_string(expected_count) + " operations have not completed");
    }
    if (ran_posted_ != posted_) {
        findings.add("not all that was posted has run");
    }
    simulation_.faults().clear();
    simulation_.advance(std::chrono::minutes(5));
    if (simulation_.open_descriptor_count() != 0) {
        findings.add("descriptors are left open:\n" + simulation_.open_descriptors());
    }
    if (simulation_.buffered_size() != 0) {
        findings.add(std::to_string(simulation_.buffered_size()) + " bytes are left in queues");
    }
}

void World::post() {
    const std::uint64_t number = ++posted_;
    const InsideCall inside(*this);
    loop().post([this, number] {
        if (inside_calls != 0) {
            findings.add("what was posted runs inside a call");
        }
        if (++ran_posted_ != number) {
            findings.add("what was posted runs out of order");
        }
    });
}

}  // namespace berth::test::stress
