// SPDX-License-Identifier: Apache-2.0
#include <berth/when.h>

namespace berth::internal {

void RaceJoin::ended(Branch& branch) noexcept {
    auto& join = static_cast<RaceJoin&>(*branch.owner());
    if (join.winner_ == nullptr) {
        join.winner_ = static_cast<const Racer*>(&branch);
        join.cancel();
    }
}

void TimeLimit::start(Loop& loop, Deadline deadline) noexcept {
    if (!deadline.is_never()) {
        TimerOperation::start(loop, deadline);
    }
}

// Also when the loop ends: its timers are cancelled then, but that is no deadline that has passed.
void TimeLimit::pass(Operation& operation) noexcept {
    auto& self = static_cast<TimeLimit&>(operation);
    self.has_passed_ = !self.has_failed();
    self.join_.cancel();
}

}  // namespace berth::internal
