// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/weather.h"

#include <array>
#include <cerrno>
#include <span>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;
using internal::CallKind;
using internal::FaultRates;

struct Failure {
    CallKind kind;
    int error;
    bool is_of_a_send = false;
};

// What these calls answer when the kernel is short of something.
constexpr std::array<Failure, 22> kFailures = {{
    {CallKind::accept4, EMFILE},      {CallKind::accept4, ENFILE},
    {CallKind::accept4, ENOMEM},      {CallKind::accept4, ENOBUFS},
    {CallKind::accept4, EINTR},       {CallKind::accept4, ECONNABORTED},
    {CallKind::socket, EMFILE},       {CallKind::socket, ENFILE},
    {CallKind::socket, ENOMEM},       {CallKind::connect, EADDRNOTAVAIL},
    {CallKind::connect, ENETUNREACH}, {CallKind::epoll_ctl, ENOMEM},
    {CallKind::epoll_ctl, ENOSPC},    {CallKind::recv, ENOMEM},
    {CallKind::recv, EINTR},          {CallKind::send, ENOBUFS, true},
    {CallKind::send, ENOMEM, true},   {CallKind::sendmsg, ENOBUFS, true},
    {CallKind::sendmsg, EINTR},       {CallKind::sendmmsg, ENOBUFS, true},
    {CallKind::recvmmsg, EINTR},      {CallKind::listen, EADDRINUSE},
}};

double any_rate(Dice& dice) {
    constexpr std::array kRates = {0.0, 0.0, 0.01, 0.05, 0.3};
    return dice.one_of(kRates);
}

}  // namespace

internal::SimulationOptions choose_options(Dice& dice, std::uint64_t seed) {
    internal::SimulationOptions options;
    options.seed = seed;
    options.faults = internal::FaultSchedule(seed + 1);
    options.port_range = {10'000, 60'000};
    constexpr std::array<std::chrono::nanoseconds, 5> kLatencies = {0ns, 0ns, 30us, 1ms, 20ms};
    options.latency = dice.one_of(kLatencies);
    constexpr std::array kBuffers = {4'608, 20'000, 212'992};
    options.send_buffer = dice.one_of(kBuffers);
    options.receive_buffer = dice.one_of(kBuffers);
    constexpr std::array<std::size_t, 3> kSegments = {536, 1'448, 65'483};
    options.segment_size = dice.one_of(kSegments);
    options.time_wait = dice.chance(0.3) ? 60s : 0s;
    if (dice.chance(0.2)) {
        options.descriptor_limit = 12 + dice.below(40);
    }
    if (dice.chance(0.2)) {
        options.call_duration = 1us;
    }
    if (dice.chance(0.4)) {
        options.weather = {
            .loss = any_rate(dice), .duplication = any_rate(dice), .reordering = any_rate(dice)};
    }
    options.spin_limit = 100'000;
    return options;
}

void announce(World& world, const internal::SimulationOptions& options) {
    world.has_duplicates = options.weather.duplication > 0;
    if (options.call_duration.count() > 0) {
        world.slack = 200ms;
    }
}

void change_faults(World& world) {
    Dice& dice = world.dice;
    FaultRates rates;
    if (dice.chance(0.8)) {
        rates.short_read = any_rate(dice);
        rates.short_write = any_rate(dice);
        rates.spurious_eagain = any_rate(dice);
        rates.interrupt = any_rate(dice);
        rates.spurious_readiness = any_rate(dice);
        rates.late_delivery = any_rate(dice);
        rates.no_descriptors = any_rate(dice);
        const bool breaks = dice.chance(0.3);
        rates.reset = breaks ? 0.005 : 0;
        rates.timed_out = breaks ? 0.005 : 0;
        rates.no_buffers = dice.chance(0.3) ? any_rate(dice) : 0;
    }
    world.has_broken_connections = world.has_broken_connections || rates.reset > 0;
    world.has_failing_sends = world.has_failing_sends || rates.no_buffers > 0;
    world.simulation().faults().set_rates(rates);
}

void plan_failures(World& world) {
    const Failure& failure = world.dice.one_of(kFailures);
    world.has_failing_sends = world.has_failing_sends || failure.is_of_a_send;
    world.simulation().faults().fail({.kind = failure.kind,
                                      .nth = 1 + static_cast<unsigned>(world.dice.below(20)),
                                      .times = 1 + static_cast<unsigned>(world.dice.below(3))},
                                     failure.error);
}

void change_surroundings(World& world) {
    if (world.dice.chance(0.5)) {
        const std::chrono::nanoseconds jump = world.dice.duration(48h);
        world.simulation().step_wall_clock(world.dice.chance(0.5) ? jump : -jump);
    } else {
        world.simulation().set_latency(world.dice.duration(5ms));
    }
}

}  // namespace berth::test::stress
