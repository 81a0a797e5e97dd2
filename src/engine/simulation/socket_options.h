// SPDX-License-Identifier: Apache-2.0
#pragma once

// Socket options that mean nothing to the simulation: it remembers the number that was set and
// gives it back. Those that mean something are members of the sockets.

#include <map>
#include <optional>
#include <utility>

namespace berth::internal::simulated {

class InertOptions {
public:
    /// Nothing for an option that the simulation does not know.
    std::optional<int> get(int level, int name) const;
    /// False for an option that the simulation does not know.
    bool set(int level, int name, int value);

private:
    std::map<std::pair<int, int>, int> values_;
};

}  // namespace berth::internal::simulated
