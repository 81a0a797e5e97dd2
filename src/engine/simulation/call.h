// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/fault_schedule.h"
#include "src/engine/simulation/file.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace berth::internal::simulated {

/// One call of the program under test: counted, changed by the faults, remembered in the trace.
class Call {
public:
    /// `size`: bytes, descriptors or events, as the call has them.
    Call(Kernel& kernel, CallKind kind, int fd, std::size_t size = 0);
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// Makes the call on `file`, null for one that is on none, and lets the network have what came
    /// of it. `body` answers as the kernel does, -errno for a failure; this as the C library: −1,
    /// and errno.
    std::int64_t run(File* file, const std::function<std::int64_t()>& body);
    /// For the bodies.
    const Fault& fault() const noexcept { return fault_; }
    template <class Data>
    void cut(const File& file, Data& data) const noexcept {
        if (fault_.is_cut() && file.is_byte_stream()) {
            data.cut(fault_.byte_limit);
        }
    }

private:
    void decide(File* file);
    std::int64_t make(File* file, const std::function<std::int64_t()>& body);
    void watch_for_spinning(std::int64_t result) const;

    Kernel& kernel_;
    CallKind kind_;
    int fd_;
    std::size_t size_;
    Fault fault_;
};

}  // namespace berth::internal::simulated
