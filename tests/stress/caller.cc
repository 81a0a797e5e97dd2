// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/caller.h"

#include <berth/event.h>
#include <berth/stream.h>
#include <berth/timer.h>
#include <berth/when.h>

#include <algorithm>
#include <string>
#include <utility>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;

bool is_cancelled(const Error& error) noexcept { return error.code() == Errc::cancelled; }

/// While one lives, a task counts as running.
class Running {
public:
    explicit Running(std::size_t& count) noexcept : count_(count) { ++count_; }
    ~Running() { --count_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

private:
    std::size_t& count_;
};

}  // namespace

Caller::Caller(World& world) : Actor(world), server_(std::make_unique<Scope>()) {
    scopes_.push_back(std::make_unique<Scope>());
    Result<Listener> listener =
        Listener::open(world.loop(), Address::loopback(Family::ipv4), {.backlog = 5});
    if (!listener) {
        is_closed_ = true;
        return;
    }
    listener_ = std::move(*listener);
    here_ = listener_.local_endpoint().value();
    server_->spawn(serve());
}

Task<void> Caller::serve() {
    const Running running(running_count_);
    Scope clients;
    bool goes_on = true;
    while (goes_on) {
        Result<Stream> client = co_await listener_.accept(world_.dice.deadline(30ms));
        if (client) {
            clients.spawn(echo(std::move(*client)));
        } else {
            goes_on = !is_cancelled(client.error()) && !is_closed_;
            const Result<void> slept = co_await sleep(world_.loop(), within(1ms));
            goes_on = goes_on && slept.has_value();
        }
    }
    clients.cancel();
    co_await clients.join();
}

Task<void> Caller::echo(Stream client) {
    const Running running(running_count_);
    while (Lent data = co_await client.receive()) {
        const Result<void> sent = co_await client.send(std::move(data));
        if (!sent) {
            break;
        }
    }
}

Task<void> Caller::talk(Endpoint server) {
    const Running running(running_count_);
    Result<Stream> stream = co_await connect(world_.loop(), server, world_.dice.deadline(100ms));
    if (!stream) {
        co_return;
    }
    const std::uint64_t round_count = world_.dice.below(5);
    for (std::uint64_t round = 0; round < round_count; ++round) {
        const std::size_t size = 1 + world_.dice.size(30'000);
        const std::size_t place = world_.dice.below(Flow::noise().size() - size);
        const std::span<const std::byte> said = Flow::noise().subspan(place, size);
        if (world_.dice.chance(0.3)) {
            const Result<void> heard = co_await race(*stream, said);
            if (!heard) co_return;
            continue;
        }
        const Result<std::size_t> sent = co_await stream->send(said, world_.dice.deadline(20ms));
        if (!sent) co_return;
        const Deadline deadline = within(world_.dice.duration(50ms));
        Task<Result<std::size_t>> hearing = hear(*stream, said);
        const Result<std::size_t> heard =
            co_await with_timeout(world_.loop(), deadline, std::move(hearing));
        if (!heard) co_return;
        if (*heard != size) {
            world_.findings.add("an echo is too short");
        }
    }
}

Task<Result<std::size_t>> Caller::hear(Stream& stream, std::span<const std::byte> said) {
    const Running running(running_count_);
    std::size_t size = 0;
    std::vector<std::byte> buffer(1 + world_.dice.size(40'000));
    while (size < said.size()) {
        const std::size_t most = std::min(buffer.size(), said.size() - size);
        const Result<std::size_t> got = co_await stream.receive_into(std::span(buffer).first(most));
        if (!got) {
            co_return std::unexpected(got.error());
        }
        if (*got == 0) {
            co_return std::unexpected(Error(Errc::truncated, "hear", "an echo"));
        }
        if (!std::ranges::equal(std::span(buffer).first(*got), said.subspan(size, *got))) {
            world_.findings.add("an echo is not what was said");
        }
        size += *got;
    }
    co_return size;
}

// What is heard races against a nap; whoever loses has ended too.
Task<Result<void>> Caller::race(Stream& stream, std::span<const std::byte> said) {
    const Running running(running_count_);
    const Result<std::size_t> sent = co_await stream.send(said);
    if (!sent) {
        co_return std::unexpected(sent.error());
    }
    struct Nap {
        static Task<Result<void>> take(Loop& loop, Deadline deadline) {
            Result<void> slept = co_await sleep(loop, deadline);
            const Result<void> waited = co_await yield(loop);
            co_return slept && !waited ? waited : slept;
        }
    };
    Task<Result<std::size_t>> hearing = hear(stream, said);
    Task<Result<void>> nap = Nap::take(world_.loop(), within(world_.dice.duration(20ms)));
    const auto race = co_await when_any(std::move(hearing), std::move(nap));
    const Result<std::size_t>& heard = std::get<0>(race.values);
    if (race.index > 1) {
        world_.findings.add("a race of two is won by a third");
    }
    if (!heard) {
        co_return std::unexpected(heard.error());
    }
    co_return Result<void>();
}

void Caller::act() {
    if (is_closed_ || world_.is_winding_down) {
        return;
    }
    const std::uint64_t roll = world_.dice.below(100);
    if (roll < 70 && running_count_ < 20) {
        scopes_.back()->spawn(talk(here_));
    } else if (roll < 80) {
        const InsideCall inside(world_);
        scopes_.back()->cancel();
    } else if (roll < 85) {
        scopes_.push_back(std::make_unique<Scope>());
    }
}

void Caller::wind_down() {
    is_closed_ = true;
    const InsideCall inside(world_);
    for (auto& scope : scopes_) {
        scope->cancel();
    }
    server_->cancel();
    listener_.close();
}

void Caller::check() {
    if (running_count_ != 0) {
        world_.findings.add(std::to_string(running_count_) + " tasks have not ended");
    }
}

}  // namespace berth::test::stress
