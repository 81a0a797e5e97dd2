// SPDX-License-Identifier: Apache-2.0
#pragma once

// A program's timers under measurement: as many as asked for, numbered from 0. Every call does one
// thing to many of them, so that the indirect call costs nothing for each and is the same for all;
// what it does is what a server does in its callbacks, with the loop's cached time where there is
// one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace berth::bench {

struct Rearm {
    std::uint64_t timeout_ns;
    std::uint32_t timer;
};

class TimerSubject {
public:
    virtual ~TimerSubject() = default;
    TimerSubject(const TimerSubject&) = delete;
    TimerSubject& operator=(const TimerSubject&) = delete;

    /// Starts all timers, which must be idle; index = timer.
    virtual void schedule(std::span<const std::uint64_t> timeouts_ns) = 0;
    /// Pushes running timers further away, as a message does with its connection's idle timeout.
    virtual void rearm(std::span<const Rearm> rearms) = 0;
    virtual void cancel(std::span<const std::uint32_t> timers) = 0;
    /// Lets time pass, and fires nothing, until a timeout of `window_ns` that was started before
    /// the call is over. Virtual time where the program allows it.
    virtual void let_pass(std::uint64_t window_ns) = 0;
    /// Fires every timer that is due.
    virtual void fire() = 0;

    /// What has fired since the last schedule(), in that order. Of what fires more often than there
    /// are timers, only how often.
    std::span<const std::uint32_t> fired() const noexcept {
        return std::span(fired_).first(fired_count_ < fired_.size() ? fired_count_ : fired_.size());
    }
    std::size_t fired_count() const noexcept { return fired_count_; }

protected:
    explicit TimerSubject(std::uint32_t count) : fired_(count) {}

    void forget_fired() noexcept { fired_count_ = 0; }
    void note_fired(std::size_t timer) noexcept {
        if (fired_count_ < fired_.size()) {
            fired_[fired_count_] = static_cast<std::uint32_t>(timer);
        }
        ++fired_count_;
    }
    bool have_all_fired() const noexcept { return fired_count_ >= fired_.size(); }

    /// let_pass() of a program that reads the clock itself.
    static void sleep_past(std::uint64_t window_ns) noexcept;

private:
    std::vector<std::uint32_t> fired_;
    std::size_t fired_count_ = 0;
};

}  // namespace berth::bench
