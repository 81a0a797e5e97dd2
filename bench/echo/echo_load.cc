// SPDX-License-Identifier: Apache-2.0
#include "bench/echo/echo_load.h"

#include "bench/harness/loopback.h"
#include "bench/harness/statistics.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace berth::bench {
namespace {

constexpr std::chrono::milliseconds kLongestWait{100};
constexpr std::uint64_t kStalledNs = 5'000'000'000;

std::unexpected<Error> stalled() {
    return std::unexpected(
        Error(Errc::timed_out, "wait for", "an echo", 0, "the server has not answered for 5 s"));
}

}  // namespace

Result<std::unique_ptr<EchoLoad>> EchoLoad::connect(const std::vector<Address>& server,
                                                    unsigned connections, unsigned active,
                                                    std::uint64_t seed) {
    std::vector<Descriptor> sockets = BERTH_TRY(connect_many(server, connections));
    std::unique_ptr<Wire> wire = BERTH_TRY(Wire::open(sockets));
    std::unique_ptr<EchoLoad> load(new EchoLoad(std::move(sockets), std::move(wire), active, seed));
    BERTH_TRY(load->warm_up());
    return load;
}

EchoLoad::EchoLoad(std::vector<Descriptor> sockets, std::unique_ptr<Wire> wire, unsigned active,
                   std::uint64_t seed)
    : sockets_(std::move(sockets)),
      wire_(std::move(wire)),
      checks_(sockets_.size()),
      sent_count_(sockets_.size()),
      active_(sockets_.size()),
      random_(seed),
      first_number_(sockets_.size()) {
    std::iota(active_.begin(), active_.end(), std::uint32_t{0});
    std::ranges::shuffle(active_, random_);
    idle_.assign(active_.begin() + std::min<std::ptrdiff_t>(active, std::ssize(active_)),
                 active_.end());
    active_.resize(active_.size() - idle_.size());
}

Result<void> EchoLoad::warm_up() {
    const auto start = [this](std::vector<std::uint32_t>& connections) {
        std::ranges::for_each(connections, [this](std::uint32_t one) { send(one); });
    };
    messages_sent_ = messages_answered_ = 0;
    is_ending_ = true;  // no answer is followed by another message
    start(active_);
    start(idle_);
    BERTH_TRY(finish(now_ns()));
    return {};
}

Result<LoadOutcome> EchoLoad::run_closed(std::chrono::nanoseconds time_limit) {
    const std::uint64_t start_ns = now_ns();
    const std::uint64_t end_ns = start_ns + static_cast<std::uint64_t>(time_limit.count());
    messages_sent_ = messages_answered_ = 0;
    is_ending_ = false;
    last_answer_ns_ = start_ns;
    // Where the loop moves from one connection to another, each that ends leaves its last one here.
    const std::vector<std::uint32_t> first = std::exchange(active_, {});
    for (const std::uint32_t connection : first) {
        send(connection);
    }
    while (now_ns() < end_ns) {
        BERTH_TRY(exchange(kLongestWait));
    }
    is_ending_ = true;
    return finish(start_ns);
}

Result<LoadOutcome> EchoLoad::run_open(double rate, std::chrono::nanoseconds duration,
                                       LatencyHistogram& latencies) {
    const std::uint64_t start_ns = now_ns();
    const OpenLoop loop(start_ns, rate, static_cast<std::uint32_t>(sockets_.size()));
    const std::uint64_t last =
        loop.due_count(start_ns + static_cast<std::uint64_t>(duration.count()));
    messages_sent_ = messages_answered_ = 0;
    last_answer_ns_ = start_ns;
    is_ending_ = true;
    first_number_ = sent_count_;
    open_loop_ = &loop;
    latencies_ = &latencies;
    while (messages_sent_ < last) {
        const std::uint64_t due = std::min(last, loop.due_count(now_ns()));
        while (messages_sent_ < due) {
            send(loop.connection_of(messages_sent_));
        }
        // Looking again and again: a timer would be late by more than an answer takes.
        BERTH_TRY(exchange(std::chrono::nanoseconds(0)));
    }
    Result<LoadOutcome> outcome = finish(start_ns);
    open_loop_ = nullptr;
    latencies_ = nullptr;
    return outcome;
}

Result<LoadOutcome> EchoLoad::finish(std::uint64_t start_ns) {
    last_answer_ns_ = std::max(last_answer_ns_, start_ns);
    while (messages_answered_ < messages_sent_) {
        BERTH_TRY(exchange(kLongestWait));
    }
    const bool is_intact = std::ranges::all_of(checks_, &AnswerCheck::is_intact);
    return LoadOutcome{messages_answered_, now_ns() - start_ns, is_intact};
}

Result<void> EchoLoad::exchange(std::chrono::nanoseconds at_most) {
    const std::uint64_t answered_before = messages_answered_;
    now_ns_ = 0;
    BERTH_TRY(wire_->exchange(*this, at_most));
    if (messages_answered_ != answered_before || messages_answered_ == messages_sent_) {
        last_answer_ns_ = now_ns();
    } else if (now_ns() - last_answer_ns_ > kStalledNs) {
        return stalled();
    }
    return {};
}

void EchoLoad::received(std::uint32_t connection, std::span<const std::byte> data) {
    const unsigned completed = checks_[connection].take(connection, data);
    messages_answered_ += completed;
    if (open_loop_ != nullptr) {
        measure(connection, completed);
        return;
    }
    for (unsigned i = 0; i < completed; ++i) {
        answered(connection);
    }
}

void EchoLoad::measure(std::uint32_t connection, unsigned count) {
    // One reading of the clock for everything that an exchange brings.
    now_ns_ = now_ns_ == 0 ? now_ns() : now_ns_;
    const std::uint64_t end = checks_[connection].message_count() - first_number_[connection];
    for (std::uint64_t index = end - count; index < end; ++index) {
        const std::uint64_t due_ns = open_loop_->due_ns(connection, index);
        latencies_->add(now_ns_ > due_ns ? now_ns_ - due_ns : 0);
    }
}

void EchoLoad::answered(std::uint32_t connection) {
    if (!is_ending_) {
        send(next_after(connection));
    } else if (active_.size() + idle_.size() < sockets_.size()) {
        active_.push_back(connection);
    }
}

std::uint32_t EchoLoad::next_after(std::uint32_t connection) {
    if (idle_.empty()) {
        return connection;
    }
    const std::size_t place = random_() % idle_.size();
    return std::exchange(idle_[place], connection);
}

void EchoLoad::send(std::uint32_t connection) {
    wire_->send(connection, make_message(connection, sent_count_[connection]++));
    ++messages_sent_;
}

}  // namespace berth::bench
