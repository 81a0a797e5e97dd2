// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/scenario.h"

#include "tests/stress/caller.h"
#include "tests/stress/clockwork.h"
#include "tests/stress/doorkeeper.h"
#include "tests/stress/plumber.h"
#include "tests/stress/postman.h"
#include "tests/stress/stream_end.h"
#include "tests/stress/weather.h"
#include "tests/stress/world.h"

#include <berth/timer.h>

#include <sys/socket.h>

#include <functional>
#include <utility>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;

class Director {
public:
    explicit Director(World& world)
        : world_(world), steps_left_(30 + world.dice.below(200)), tick_(world.loop(), [this] {
              step();
              if (is_running_) tick_.start(within(world_.dice.duration(3ms)));
          }) {}

    void run() {
        world_.add<Doorkeeper>();
        world_.add<Clockwork>();
        tick_.start(within(0ns));
        while (steps_left_ > 0) {
            turn();
        }
        is_running_ = false;
        tick_.stop();
        world_.simulation().faults().set_rates({});
        world_.wind_down();
        if (world_.dice.chance(0.8)) {
            check(world_.loop().run());
            check_that_nothing_is_left();
        }
        completion_count_ = world_.loop().statistics().completion_count;
    }
    std::uint64_t completion_count() const noexcept { return completion_count_; }

private:
    template <class T>
    void check(const Result<T>& result) {
        if (!result) world_.findings.add("the loop fails: " + result.error().message());
    }

    // Half of the steps are taken by the timer, inside the loop.
    void turn() {
        Loop& loop = world_.loop();
        switch (world_.dice.below(5)) {
            case 0:
                check(loop.run_once());
                break;
            case 1:
                check(loop.run_until(within(world_.dice.duration(2ms))));
                break;
            case 2:
                loop.stop();
                check(loop.run());
                break;
            case 3:
                loop.wake();
                check(loop.run_once(within(1h)));
                break;
            default:
                check(loop.run_once(within(world_.dice.duration(2ms))));
        }
        step();
    }

    void step() {
        if (steps_left_ > 0) {
            --steps_left_;
        }
        const std::uint64_t roll = world_.dice.below(100);
        if (roll < 14 && !world_.is_crowded()) {
            bring_somebody();
        } else if (roll < 17) {
            change_faults(world_);
        } else if (roll < 19) {
            plan_failures(world_);
        } else if (roll < 21) {
            change_surroundings(world_);
        } else if (roll < 24) {
            world_.post();
        } else {
            world_.any_actor().act();
        }
    }

    void bring_somebody() {
        const std::uint64_t roll = world_.dice.below(100);
        if (roll < 50 && !world_.listening.empty()) {
            world_.add<StreamEnd>(world_.dice.one_of(world_.listening).endpoint);
        } else if (roll < 65) {
            bring_a_pair();
        } else if (roll < 75) {
            world_.add<Doorkeeper>();
        } else if (roll < 80) {
            world_.add<Plumber>();
        } else if (roll < 92) {
            world_.add<Postman>();
        } else {
            world_.add<Caller>();
        }
    }

    void bring_a_pair() {
        const auto [first, second] = world_.simulation().make_socket_pair(SOCK_STREAM);
        if (first < 0) {
            return;
        }
        Result<Stream> one = Stream::adopt(world_.loop(), Descriptor(first));
        Result<Stream> other = Stream::adopt(world_.loop(), Descriptor(second));
        if (one && other) {
            const auto connection = std::make_shared<Connection>();
            connection->name = "pair " + std::to_string(world_.next_name++);
            world_.connections.emplace(connection->name, connection);
            world_.add<StreamEnd>(std::move(*one), connection, true);
            world_.add<StreamEnd>(std::move(*other), connection, false);
        }
    }

    void check_that_nothing_is_left() {
        const LoopStatistics statistics = world_.loop().statistics();
        if (statistics.pending_count != 0) {
            world_.findings.add(std::to_string(statistics.pending_count) + " are pending");
        }
        if (statistics.socket_count != 0) {
            world_.findings.add(std::to_string(statistics.socket_count) + " sockets are left");
        }
        if (world_.expected_count != 0) {
            world_.findings.add(std::to_string(world_.expected_count) +
                                " operations have not completed when the loop ends by itself");
        }
    }

    World& world_;
    std::uint64_t steps_left_;
    bool is_running_ = true;
    std::uint64_t completion_count_ = 0;
    Timer<std::function<void()>> tick_;
};

}  // namespace

Outcome run_scenario(std::uint64_t seed, EngineKind engine, std::size_t trace_length) {
    Dice dice(seed);
    internal::SimulationOptions options = choose_options(dice, seed);
    options.trace_length = trace_length;
    World world(dice.below(~std::uint64_t{0}), engine, options);
    announce(world, options);
    Outcome outcome;
    {
        Director director(world);
        director.run();
        outcome.completion_count = director.completion_count();
    }
    outcome.fault_count = world.simulation().faults().fault_count();
    outcome.trace = world.simulation().trace();
    world.end_loop();
    world.check();
    outcome.findings = world.findings.text();
    return outcome;
}

}  // namespace berth::test::stress
