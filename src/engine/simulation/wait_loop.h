// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>
#include <vector>

namespace berth::internal::simulated {

struct Kernel;

/// What one call waits for.
class Waiting {
public:
    virtual ~Waiting() = default;
    /// How many are ready, which it writes down for the caller; or minus errno.
    virtual int collect() = 0;
    /// The descriptors, for the report of a deadlock.
    virtual std::vector<int> list() const = 0;
};

/// Until something is ready, or to the end of the timeout (null: none). With no timeout and nothing
/// that will ever happen: a deadlock.
int wait_for(Kernel& kernel, const timespec* timeout, Waiting& waiting);

}  // namespace berth::internal::simulated
