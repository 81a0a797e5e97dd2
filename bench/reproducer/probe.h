// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the reproducer does to everything else: a process that draws frames and knows how many it
// managed in a window of time.

#include <berth/error.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace berth::bench {

struct Frames {
    std::optional<double> per_second;
    std::optional<double> longest_ms;
};

class Probe {
public:
    virtual ~Probe() = default;

    virtual void begin_window() = 0;
    /// Sleeps for `step` at most and takes what the probe has to tell.
    virtual void wait(std::chrono::milliseconds step) = 0;
    /// Whether the window has been long enough for a figure.
    virtual bool has_enough() const = 0;
    virtual Frames end_window() = 0;
    /// Why the probe has no figures, once it has ended.
    virtual std::optional<std::string> problem() = 0;
};

/// berth's own probe: a process that does the same amount of work for each frame, about 0.5 ms,
/// measured once when the probe starts.
Result<std::unique_ptr<Probe>> start_own_probe();

/// Another program, run by sh in a process group of its own, that prints its frames per second now
/// and then. It is ended with its group.
Result<std::unique_ptr<Probe>> start_command_probe(const std::string& command);

}  // namespace berth::bench
