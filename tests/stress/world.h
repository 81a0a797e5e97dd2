// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the parts of a stress share: a simulated kernel with a loop on it, the dice that a seed
// decides, and what was found to be wrong.
//
//   World ── actors: listeners, ends of streams, datagram sockets, pipes, timers, tasks
//     │         each does something by the dice when its turn comes, and checks its results
//     └───── Findings: what broke a promise of the library

#include "src/engine/simulation/seeded_random.h"
#include "src/engine/simulation/simulation.h"
#include "tests/stress/flow.h"

#include <berth/endpoint.h>
#include <berth/loop.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::test::stress {

/// What a seed decides.
class Dice {
public:
    explicit Dice(std::uint64_t seed) noexcept : random_(seed) {}

    std::uint64_t below(std::uint64_t bound) noexcept { return random_.below(bound); }
    bool chance(double probability) noexcept { return random_.chance(probability); }
    template <class Range>
    const auto& one_of(const Range& range) noexcept {
        return range[below(std::size(range))];
    }
    /// Sizes as programs have them: mostly small, now and then large; 0 too.
    std::size_t size(std::size_t largest) noexcept;
    /// From nothing to `longest`, mostly short.
    std::chrono::nanoseconds duration(std::chrono::nanoseconds longest) noexcept;
    /// None as often as one within `longest`.
    Deadline deadline(std::chrono::nanoseconds longest) noexcept;

private:
    internal::simulated::SeededRandom random_;
};

class Findings {
public:
    void add(std::string_view text);
    bool empty() const noexcept { return texts_.empty(); }
    std::string text() const;

private:
    static constexpr std::size_t kMost = 20;
    std::vector<std::string> texts_;
};

class Postman;
class World;

/// Somebody who uses the loop. It stays until the scenario is over.
class Actor {
public:
    explicit Actor(World& world) noexcept : world_(world) {}
    virtual ~Actor() = default;
    Actor(const Actor&) = delete;
    Actor& operator=(const Actor&) = delete;

    /// Does one thing, by the dice.
    virtual void act() = 0;
    /// Starts nothing new, and closes what is open. Its operations complete after this.
    virtual void wind_down() = 0;
    /// The loop has ended: what is there to be said in the end.
    virtual void check() {}

protected:
    World& world_;
};

class World {
public:
    World(std::uint64_t seed, EngineKind engine, internal::SimulationOptions options);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    Loop& loop() noexcept { return *loop_; }
    internal::Simulation& simulation() noexcept { return simulation_; }

    /// An actor is added by whoever; null answers when there are many already.
    template <class A, class... Arguments>
    A* add(Arguments&&... arguments) {
        auto actor = std::make_unique<A>(*this, std::forward<Arguments>(arguments)...);
        A* added = actor.get();
        actors_.push_back(std::move(actor));
        return added;
    }
    bool is_crowded() const noexcept { return actors_.size() >= kMostActors; }
    Actor& any_actor() noexcept { return *actors_[dice.below(actors_.size())]; }
    void wind_down();
    /// The loop ends, and with it what is still pending.
    void end_loop();
    void check();

    /// Posts to the loop; posted things run in order.
    void post();

    Dice dice;
    Findings findings;
    /// Calls into the library that are going on and must run no completion.
    unsigned inside_calls = 0;
    /// Operations that are to complete.
    std::size_t expected_count = 0;
    bool is_winding_down = false;
    bool is_loop_ending = false;
    /// How much later than its deadline something may be.
    std::chrono::nanoseconds slack = std::chrono::milliseconds(1);
    /// A connection may break, or a call fail, that would have worked.
    bool has_broken_connections = false;
    bool has_failing_sends = false;
    bool has_duplicates = false;

    struct Listening {
        Endpoint endpoint;
        bool is_echo = false;
    };
    std::vector<Listening> listening;
    /// By the name of the client's socket: who accepts it finds the connection here.
    std::map<std::string, std::shared_ptr<Connection>> connections;
    std::vector<Postman*> postmen;      // with an open socket
    std::vector<Postman*> all_postmen;  // that have ever had one
    std::uint64_t next_name = 1;

private:
    static constexpr std::size_t kMostActors = 60;

    internal::Simulation simulation_;
    std::optional<Loop> loop_;
    std::vector<std::unique_ptr<Actor>> actors_;
    std::uint64_t posted_ = 0;
    std::uint64_t ran_posted_ = 0;
};

/// While one lives, a call into the library is going on that must run no completion.
class InsideCall {
public:
    explicit InsideCall(World& world) noexcept : world_(world) { ++world_.inside_calls; }
    ~InsideCall() { --world_.inside_calls; }
    InsideCall(const InsideCall&) = delete;
    InsideCall& operator=(const InsideCall&) = delete;

private:
    World& world_;
};

}  // namespace berth::test::stress
