// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/fault_schedule.h"
#include "src/engine/simulation/virtual_clock.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace berth::internal::simulated {

struct TraceEntry {
    std::uint64_t number = 0;  // of the call, from 1
    Nanoseconds time{0};
    CallKind kind = CallKind::socket;
    int fd = -1;
    std::size_t size = 0;     // bytes, descriptors or events, as the call has them
    std::int64_t result = 0;  // minus errno for a failure
    Fault fault;
};

/// The last calls, for whoever must find out what a seed has done.
class Trace {
public:
    explicit Trace(std::size_t capacity) : entries_(capacity) {}

    void add(const TraceEntry& entry) {
        if (!entries_.empty()) {
            entries_[count_ % entries_.size()] = entry;
        }
        ++count_;
    }
    /// A line for each call, the oldest first.
    std::string text() const;

private:
    std::vector<TraceEntry> entries_;
    std::uint64_t count_ = 0;
};

}  // namespace berth::internal::simulated
