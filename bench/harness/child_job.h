// SPDX-License-Identifier: Apache-2.0
#pragma once

// A job in a forked process, with a gate in it where the two sides of a measurement meet, and a
// report in shared memory that can be read while the job runs.

#include <berth/descriptor.h>
#include <berth/error.h>

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace berth::bench {

/// Written by the child only; as read by the parent, a figure may be a moment old.
struct ChildReport {
    // Between the child's JobClock and its end.
    std::uint64_t real_ns = 0;
    std::uint64_t cpu_ns = 0;
    std::uint64_t user_ns = 0;  // by ticks
    std::uint64_t system_ns = 0;
    std::uint64_t allocation_count = 0;

    std::uint64_t live_allocation_count = 0;  // of the child's thread, from its start on
    std::int64_t peak_rss_kib = 0;            // at its end
    std::array<std::uint64_t, 8> values{};    // what the job counts
};

/// The child's end of the gate.
class Gate {
public:
    explicit Gate(int channel) noexcept : channel_(channel) {}
    /// Tells the parent that all is ready, and waits for its word.
    void wait() const noexcept;

private:
    int channel_;
};

/// Measures between its making and stop() into a report.
class JobClock {
public:
    explicit JobClock(ChildReport& report) noexcept;
    void stop() const noexcept;

private:
    struct Reading {
        std::uint64_t real_ns;
        std::uint64_t cpu_ns;
        std::uint64_t user_ns;
        std::uint64_t system_ns;
        std::uint64_t allocation_count;
    };
    static Reading read(const ChildReport& report) noexcept;

    ChildReport& report_;
    Reading start_;
};

class ChildJob {
public:
    using Body = std::function<Result<void>(ChildReport&, const Gate&)>;

    /// Forks; `body` runs in the child on `cpu` (-1: on any).
    static Result<ChildJob> start(int cpu, const Body& body);
    ChildJob(ChildJob&& other) noexcept
        : shared_(std::exchange(other.shared_, nullptr)),
          process_(std::exchange(other.process_, 0)),
          channel_(std::move(other.channel_)),
          end_(std::move(other.end_)) {}
    ChildJob& operator=(ChildJob&&) = delete;
    /// Kills a child that has not ended.
    ~ChildJob();

    pid_t process() const noexcept { return process_; }
    const ChildReport& report() const noexcept;
    /// Becomes readable when the child ends.
    int end_descriptor() const noexcept { return end_.get(); }

    /// **Errors:** as wait(), when the child ends or is too slow instead; interrupted.
    Result<void> wait_for_gate(std::chrono::milliseconds timeout);
    void open_gate() noexcept;
    /// Waits until the child has ended. **Errors:** what its body answered; timed_out, then it is
    /// killed; interrupted, when a signal came; system, when it has crashed.
    Result<ChildReport> wait(std::chrono::milliseconds timeout);

private:
    struct Shared;
    ChildJob(Shared* shared, pid_t process, Descriptor channel, Descriptor end) noexcept
        : shared_(shared), process_(process), channel_(std::move(channel)), end_(std::move(end)) {}
    Result<void> outcome() const;

    Shared* shared_;
    pid_t process_;
    Descriptor channel_;
    Descriptor end_;
};

}  // namespace berth::bench
