// SPDX-License-Identifier: Apache-2.0
#pragma once

// One event loop over four ways to wait: select, poll, epoll and io_uring. The user sees
// completions with every engine; the first three make them from readiness.
//
// An iteration: wait for the engine (until the next timer at the latest), run the completions of
// what is ready, run the timers that are due, run what was posted. So a result that is there wins
// over its own deadline. What completions cause that is ready at once completes in the same
// iteration, for a few rounds; then the engine is asked again, so that nobody starves.
//
// Lifetimes: sockets, timers and operations belong to their owners and end before the loop does;
// when the loop ends first, their pending operations complete with `cancelled`.
//
// Threads: a loop belongs to the thread that runs it; post(), stop() and wake() may be called from
// any thread, all else only from the loop's. One loop per thread is the intended use.
//
// Limits: 1,048,576 descriptors, or what RLIMIT_NOFILE allows. Linux >= 5.15; io_uring >= 6.1.

#include <berth/error.h>
#include <berth/export.h>
#include <berth/operation.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace berth {

class PortTable;

namespace internal {
class LoopState;
}

enum class EngineKind : std::uint8_t { select, poll, epoll, io_uring, simulated };

/// "select", "poll", "epoll", "io_uring", "simulated".
BERTH_API std::string_view to_string(EngineKind kind) noexcept;
/// **Errors:** invalid_argument; the message lists the names.
BERTH_API Result<EngineKind> parse_engine_kind(std::string_view name);

using TimePoint = std::chrono::steady_clock::time_point;

/// When something is over. `within(5s)` counts from now, `at(time)` is a point of steady_clock.
class Deadline {
public:
    constexpr Deadline() noexcept = default;  ///< Never.
    static constexpr Deadline within(std::chrono::nanoseconds timeout) noexcept {
        return Deadline(timeout.count() < 0 ? 0 : timeout.count(), true);
    }
    static constexpr Deadline at(TimePoint time) noexcept {
        const std::int64_t at_ns = time.time_since_epoch().count();
        return Deadline(at_ns < 0 ? 0 : at_ns, false);
    }

    constexpr bool is_never() const noexcept { return value_ == kNever; }
    /// The same as a point of time, for several waits that are to end together: one that counts
    /// from now would count from the begin of each.
    constexpr Deadline fixed(TimePoint now) const noexcept {
        if (is_never()) return {};
        constexpr std::uint64_t kLatest = ~std::uint64_t{0} >> 1;
        const auto now_ns = static_cast<std::uint64_t>(now.time_since_epoch().count());
        const std::uint64_t at_ns = resolve_ns(now_ns);
        return {static_cast<std::int64_t>(at_ns < kLatest ? at_ns : kLatest), false};
    }
    /// In nanoseconds of CLOCK_MONOTONIC, as seen from `now_ns`.
    constexpr std::uint64_t resolve_ns(std::uint64_t now_ns) const noexcept {
        if (is_never()) return ~std::uint64_t{0};
        return (value_ >> 1) + ((value_ & 1) != 0 ? now_ns : 0);
    }

private:
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};

    constexpr Deadline(std::int64_t value_ns, bool is_relative) noexcept
        : value_(static_cast<std::uint64_t>(value_ns) << 1 | (is_relative ? 1 : 0)) {}

    std::uint64_t value_ = kNever;  // nanoseconds times two; an odd one counts from now
};

inline constexpr Deadline kNoDeadline;
constexpr Deadline within(std::chrono::nanoseconds timeout) noexcept {
    return Deadline::within(timeout);
}
constexpr Deadline at(TimePoint time) noexcept { return Deadline::at(time); }

struct LoopOptions {
    /// Default: the environment variable BERTH_ENGINE, else the best that this kernel allows.
    std::optional<EngineKind> engine = std::nullopt;
    /// Stay awake for this long after the last event before sleeping. Costs CPU, saves the wake-up
    /// (20-50 us) where one connection waits for one answer. 0: sleep at once. Not negative.
    std::chrono::nanoseconds spin{0};
    /// Where sockets of this loop get local ports from; the kernel when null. Must outlive the
    /// loop's sockets.
    PortTable* tcp_ports = nullptr;
    PortTable* udp_ports = nullptr;
};

struct LoopStatistics {
    std::uint64_t iteration_count = 0;
    std::uint64_t completion_count = 0;
    std::uint64_t wait_count = 0;        ///< System calls that waited or could have.
    std::uint64_t interest_count = 0;    ///< epoll_ctl() calls; 0 for other engines.
    std::uint64_t submission_count = 0;  ///< Entries given to io_uring; 0 for other engines.
    std::uint64_t wake_count = 0;        ///< System calls made to wake a sleeping loop.
    std::uint32_t socket_count = 0;      ///< Now.
    std::uint32_t pending_count = 0;     ///< Operations, now.
};

/// Something to run on the loop's thread, posted from any thread. Intrusive: it belongs to whoever
/// posts it and must stay until it has run.
class BERTH_API PostOperation : public Operation {
public:
    explicit PostOperation(Completion completion) noexcept
        : Operation(OperationKind::post, completion) {}
};

class BERTH_API Loop {
public:
    /// **Errors:** unsupported (an engine that was asked for by name cannot be had: the message
    /// says why and what to do), invalid_argument (BERTH_ENGINE, spin), descriptors_exhausted,
    /// out_of_memory.
    static Result<Loop> create(const LoopOptions& options = {});

    Loop(Loop&&) noexcept;
    Loop& operator=(Loop&&) noexcept;
    /// Cancels what is pending and runs those completions, then goes.
    ~Loop();

    EngineKind engine() const noexcept;
    /// Why the engine is not a better one, such as "io_uring: switched off by
    /// kernel.io_uring_disabled=2"; empty when it is the best or was asked for by name.
    std::string_view engine_note() const noexcept;

    /// Runs until stop(), or until nothing is pending that keeps the loop alive.
    /// **Errors:** what the engine cannot go on with (system).
    Result<void> run();
    /// One iteration, which waits until `deadline` at the longest; `within(0s)` does not wait.
    /// True when something was run. **Errors:** as run().
    Result<bool> run_once(Deadline deadline = within(std::chrono::nanoseconds{0}));
    /// Runs until stop() or until `deadline`, also when nothing is pending. **Errors:** as run().
    Result<void> run_until(Deadline deadline);
    /// Makes the run that is going on return after its iteration, or the next one at once. Any
    /// thread.
    void stop() noexcept;
    /// Makes a waiting loop go round once. Any thread.
    void wake() noexcept;

    /// Runs `operation` in the loop's thread, in the order posted. Any thread. **Cost:** about 30
    /// ns while the loop is awake, one system call when it sleeps. No allocation.
    void post(PostOperation& operation) noexcept;
    /// The same for a callable. One of up to 32 bytes is kept in memory that was used for others
    /// before.
    template <std::invocable Callable>
    void post(Callable callable);

    /// CLOCK_MONOTONIC; while the loop runs, read at most once an iteration.
    TimePoint now() const noexcept;
    LoopStatistics statistics() const noexcept;

    /// For a foreign loop: readable when run_once() has something to do, timers and whatever was
    /// started outside of the loop included. Call run_once() whenever it is readable.
    /// **Errors:** descriptors_exhausted.
    Result<int> descriptor();

    internal::LoopState& state() noexcept { return *state_; }

private:
    explicit Loop(std::unique_ptr<internal::LoopState> state) noexcept;

    std::unique_ptr<internal::LoopState> state_;
};

namespace internal {

/// Memory for a callable that is posted: by the thread that posts, back by the loop's.
inline constexpr std::size_t kPostedSize = 128;
inline constexpr std::size_t kPostedAlignment = 64;
BERTH_API void* take_posted(LoopState& loop, std::size_t size, std::size_t alignment);
BERTH_API void give_back_posted(LoopState& loop, void* posted, std::size_t size,
                                std::size_t alignment) noexcept;

template <class Callable>
class Posted final : public PostOperation {
public:
    static Posted* make(LoopState& loop, Callable callable) {
        void* memory = take_posted(loop, sizeof(Posted), alignof(Posted));
        return ::new (memory) Posted(std::move(callable));
    }

private:
    explicit Posted(Callable callable) : PostOperation(&run), callable_(std::move(callable)) {}

    static void run(Operation& operation) noexcept {
        auto& self = static_cast<Posted&>(operation);
        LoopState& loop = *self.loop_state;
        Callable callable = std::move(self.callable_);
        self.~Posted();
        give_back_posted(loop, &self, sizeof(Posted), alignof(Posted));
        callable();
    }

    Callable callable_;
};

}  // namespace internal

template <std::invocable Callable>
void Loop::post(Callable callable) {
    PostOperation& posted = *internal::Posted<Callable>::make(*state_, std::move(callable));
    post(posted);
}

}  // namespace berth
