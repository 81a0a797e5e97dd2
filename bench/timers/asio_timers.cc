// SPDX-License-Identifier: Apache-2.0
// Boost.Asio: steady_timer, without locks. Timers are started from handlers, where Asio finds
// memory of earlier handlers, and with absolute times, which spares it the clock. A cancelled wait
// ends in a handler of its own, which is part of the cost.
#include "bench/timers/programs.h"

#include <boost/asio.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

namespace berth::bench {
namespace {

namespace asio = boost::asio;

class AsioTimers final : public TimerSubject {
public:
    explicit AsioTimers(std::uint32_t count) : TimerSubject(count) {
        timers_.reserve(count);
        for (std::uint32_t timer = 0; timer < count; ++timer) timers_.emplace_back(context_);
    }

    void schedule(std::span<const std::uint64_t> timeouts_ns) override {
        forget_fired();
        const Time now = std::chrono::steady_clock::now();
        // One handler, so that none of them fires before its turn.
        asio::post(context_, [this, timeouts_ns, now] {
            for (std::size_t timer = 0; timer < timeouts_ns.size(); ++timer) {
                start(timer, now, timeouts_ns[timer]);
            }
        });
        context_.restart();
        context_.run_one();
    }
    void rearm(std::span<const Rearm> rearms) override {
        const Time now = std::chrono::steady_clock::now();
        in_handlers(rearms,
                    [this, now](const Rearm& rearm) { start(rearm.timer, now, rearm.timeout_ns); });
    }
    void cancel(std::span<const std::uint32_t> timers) override {
        in_handlers(timers, [this](std::uint32_t timer) { timers_[timer].cancel(); });
    }
    void let_pass(std::uint64_t window_ns) override { sleep_past(window_ns); }
    void fire() override {
        context_.restart();
        while (!have_all_fired() && context_.run_one() != 0) {
        }
    }

private:
    using Time = std::chrono::steady_clock::time_point;
    using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                             asio::wait_traits<std::chrono::steady_clock>,
                                             asio::io_context::executor_type>;

    // As many messages as an iteration of a busy server may bring.
    static constexpr std::size_t kChunk = 256;

    void start(std::size_t timer, Time now, std::uint64_t timeout_ns) {
        timers_[timer].expires_at(now + std::chrono::nanoseconds(timeout_ns));
        timers_[timer].async_wait([this, timer](const boost::system::error_code& error) {
            if (!error) {
                note_fired(timer);
            }
        });
    }

    template <class Item, class Body>
    void in_handlers(std::span<const Item> items, const Body& body) {
        context_.restart();
        for (std::size_t begin = 0; begin < items.size(); begin += kChunk) {
            const auto chunk = items.subspan(begin, std::min(kChunk, items.size() - begin));
            asio::post(context_, [&body, chunk] { std::ranges::for_each(chunk, body); });
            context_.poll();
            context_.restart();
        }
    }

    asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
    std::vector<Timer> timers_;
};

}  // namespace

TimerSubjectResult make_asio_timers(std::uint32_t count) {
    return std::make_unique<AsioTimers>(count);
}

}  // namespace berth::bench
