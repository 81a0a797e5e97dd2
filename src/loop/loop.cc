// SPDX-License-Identifier: Apache-2.0
#include <berth/loop.h>

#include "src/loop/loop_state.h"

namespace berth {

Result<Loop> Loop::create(const LoopOptions& options) {
    return Loop(BERTH_TRY(internal::LoopState::create(options)));
}

Loop::Loop(std::unique_ptr<internal::LoopState> state) noexcept : state_(std::move(state)) {}
Loop::Loop(Loop&&) noexcept = default;
Loop& Loop::operator=(Loop&&) noexcept = default;
Loop::~Loop() = default;

EngineKind Loop::engine() const noexcept { return state_->engine_kind(); }
std::string_view Loop::engine_note() const noexcept { return state_->engine_note(); }
Result<void> Loop::run() { return state_->run(); }

Result<bool> Loop::run_once(Deadline deadline) {
    return state_->run_once(deadline.resolve_ns(state_->now_ns()));
}

Result<void> Loop::run_until(Deadline deadline) {
    return state_->run_until(deadline.resolve_ns(state_->now_ns()));
}

void Loop::stop() noexcept { state_->stop(); }
void Loop::wake() noexcept { state_->wake(); }
void Loop::post(PostOperation& operation) noexcept { state_->post(operation); }

TimePoint Loop::now() const noexcept {
    return TimePoint(std::chrono::nanoseconds(state_->now_ns()));
}

LoopStatistics Loop::statistics() const noexcept { return state_->statistics(); }
Result<int> Loop::descriptor() { return state_->descriptor(); }

}  // namespace berth
