// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/process.h"
#include "bench/harness/statistics.h"
#include "bench/reproducer/probe.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>
#include <thread>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace berth::bench {
namespace {

constexpr double kFrameNs = 500'000;
constexpr unsigned kCalibrationSteps = 100'000;
constexpr unsigned kCalibrationRuns = 40;

struct FrameCounters {
    std::atomic<std::uint64_t> frames{0};
    std::atomic<std::uint64_t> longest_ns{0};
    std::atomic<bool> is_ready{false};
};

/// Work that stays in the first cache and makes no system call.
class FrameWork {
public:
    void run(unsigned steps) noexcept {
        for (unsigned step = 0; step < steps; ++step) {
            state_ ^= state_ << 13;
            state_ ^= state_ >> 7;
            state_ ^= state_ << 17;
            cells_[state_ % cells_.size()] += state_;
        }
        // The compiler must not drop work whose result nobody reads.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        asm volatile("" : : "g"(cells_.data()) : "memory");
    }

private:
    std::array<std::uint64_t, 2'048> cells_{};
    std::uint64_t state_ = 88'172'645'463'325'252;
};

/// The fastest of many runs: what the machine can do when nothing disturbs it.
unsigned steps_per_frame(FrameWork& work) noexcept {
    std::uint64_t fastest_ns = ~std::uint64_t{0};
    for (unsigned run = 0; run < kCalibrationRuns; ++run) {
        const std::uint64_t start = now_ns();
        work.run(kCalibrationSteps);
        fastest_ns = std::min(fastest_ns, std::max<std::uint64_t>(1, now_ns() - start));
    }
    const double step_ns = static_cast<double>(fastest_ns) / kCalibrationSteps;
    return static_cast<unsigned>(kFrameNs / step_ns);
}

[[noreturn]] void draw_frames(FrameCounters& counters) noexcept {
    FrameWork work;
    const unsigned steps = steps_per_frame(work);
    counters.is_ready.store(true, std::memory_order_release);
    while (true) {
        const std::uint64_t start = now_ns();
        work.run(steps);
        const std::uint64_t duration = now_ns() - start;
        if (duration > counters.longest_ns.load(std::memory_order_relaxed)) {
            counters.longest_ns.store(duration, std::memory_order_relaxed);
        }
        counters.frames.fetch_add(1, std::memory_order_release);
    }
}

class OwnProbe final : public Probe {
public:
    OwnProbe(FrameCounters* counters, pid_t process) noexcept
        : counters_(counters), process_(process) {}
    ~OwnProbe() override {
        end_helper(process_);
        ::munmap(counters_, sizeof(FrameCounters));
    }
    OwnProbe(const OwnProbe&) = delete;
    OwnProbe& operator=(const OwnProbe&) = delete;

    void begin_window() override {
        counters_->longest_ns.store(0, std::memory_order_relaxed);
        frames_before_ = counters_->frames.load(std::memory_order_acquire);
        start_ns_ = now_ns();
    }
    void wait(std::chrono::milliseconds step) override { std::this_thread::sleep_for(step); }
    /// The first frame may have begun before the window.
    bool has_enough() const override { return frames_in_window() > 1 || has_ended(); }
    Frames end_window() override {
        const std::uint64_t frames = frames_in_window();
        const double seconds = static_cast<double>(now_ns() - start_ns_) / 1e9;
        const auto longest = counters_->longest_ns.load(std::memory_order_relaxed);
        return {.per_second = static_cast<double>(frames) / seconds,
                .longest_ms = static_cast<double>(longest) / 1e6};
    }
    std::optional<std::string> problem() override {
        return has_ended() ? std::optional<std::string>("the probe process was killed")
                           : std::nullopt;
    }

private:
    std::uint64_t frames_in_window() const noexcept {
        return counters_->frames.load(std::memory_order_acquire) - frames_before_;
    }
    bool has_ended() const noexcept {
        siginfo_t info{};
        const int result =
            ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT);
        return result == 0 && info.si_pid == process_;
    }

    FrameCounters* counters_;
    pid_t process_;
    std::uint64_t frames_before_ = 0;
    std::uint64_t start_ns_ = 0;
};

}  // namespace

Result<std::unique_ptr<Probe>> start_own_probe() {
    void* memory = ::mmap(nullptr, sizeof(FrameCounters), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return std::unexpected(Error::from_errno(errno, "map", "the probe's counters"));
    }
    auto* counters = ::new (memory) FrameCounters;
    const Result<pid_t> process = fork_helper();
    if (!process) {
        ::munmap(memory, sizeof(FrameCounters));
        return std::unexpected(process.error());
    }
    if (*process == 0) {
        draw_frames(*counters);
    }
    auto probe = std::make_unique<OwnProbe>(counters, *process);
    while (!counters->is_ready.load(std::memory_order_acquire)) {
        if (probe->problem()) {
            return std::unexpected(
                Error(Errc::interrupted, "start", "the probe", 0, "its process was killed"));
        }
        probe->wait(std::chrono::milliseconds(1));
    }
    return probe;
}

}  // namespace berth::bench
