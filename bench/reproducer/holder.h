// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/workload.h"
#include "bench/reproducer/shared_area.h"

#include <sys/types.h>

#include <utility>

namespace berth::bench {

/// A process that keeps a part of the range taken, in the order in which the kernel fills it.
class Holder {
public:
    struct Options {
        Protocol protocol;
        Family family;
        unsigned port_count;
        std::uint64_t seed;
    };
    /// Returns once the ports are taken. **Errors:** what stopped the holder.
    static Result<Holder> start(const Environment& environment, const Options& options,
                                SharedArea& area);

    Holder() noexcept = default;
    Holder(Holder&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
    Holder& operator=(Holder&& other) noexcept {
        std::swap(process_, other.process_);
        return *this;
    }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    ~Holder();

private:
    explicit Holder(pid_t process) noexcept : process_(process) {}

    pid_t process_ = 0;  // 0: none
};

}  // namespace berth::bench
