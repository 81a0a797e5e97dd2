// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that the driver and its processes share: a memfd, mapped by those that are forked and
// opened by descriptor by those that are another program.
//
//   [ Control ][ WorkerCounters × workers ]
//
// One writer for each word, except for the phase and the first error.

#include "bench/reproducer/latency_histogram.h"

#include <berth/descriptor.h>
#include <berth/error.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace berth::bench {

enum class Phase : std::uint32_t { warming_up, measuring, stopping };

struct alignas(64) WorkerCounters {
    std::atomic<std::uint64_t> succeeded{0};       // while measuring
    std::atomic<std::uint64_t> failed{0};          // while measuring: no port was found
    std::atomic<std::uint64_t> without_socket{0};  // while measuring: socket() failed
    std::atomic<std::uint64_t> held{0};            // sockets now
    LatencyHistogram times;                        // of the bind calls while measuring
};

class SharedArea {
public:
    /// **Errors:** out_of_memory.
    static Result<SharedArea> create(unsigned worker_count);
    /// One that another process created. Its error() says nothing there, see fail().
    /// **Errors:** out_of_memory.
    static Result<SharedArea> attach(int memory, unsigned worker_count);
    int descriptor() const noexcept { return memory_.get(); }

    SharedArea(SharedArea&& other) noexcept;
    SharedArea& operator=(SharedArea&&) = delete;
    SharedArea(const SharedArea&) = delete;
    SharedArea& operator=(const SharedArea&) = delete;
    ~SharedArea();

    std::span<WorkerCounters> workers() const noexcept;

    Phase phase() const noexcept { return control_->phase.load(std::memory_order_acquire); }
    void set_phase(Phase phase) noexcept {
        control_->phase.store(phase, std::memory_order_release);
    }

    /// The holder has taken its ports.
    bool is_held() const noexcept { return control_->is_held.load(std::memory_order_acquire); }
    void set_held() noexcept { control_->is_held.store(true, std::memory_order_release); }

    /// Tells the driver why a process gave up; the first one counts.
    void fail(const Error& error) noexcept;
    std::optional<Error> error() const noexcept;

private:
    struct Control {
        std::atomic<Phase> phase{Phase::warming_up};
        std::atomic<bool> is_held{false};
        std::atomic<bool> is_failing{false};
        std::atomic<bool> has_failed{false};
        // An Error; its strings are literals, at the same addresses in every forked process.
        std::array<std::byte, sizeof(Error)> error{};
    };

    SharedArea(void* memory, Descriptor descriptor, unsigned worker_count) noexcept;
    static std::size_t size_for(unsigned worker_count) noexcept;

    Descriptor memory_;
    Control* control_;
    WorkerCounters* workers_;
    unsigned worker_count_;
};

}  // namespace berth::bench
