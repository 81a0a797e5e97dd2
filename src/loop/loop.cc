// SPDX-License-Identifier: Apache-2.0
#include <berth/loop.h>

#include "src/loop/loop_state.h"

#include <cstddef>
#include <new>

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

namespace internal {
namespace {

static_assert(kPostedSize == PostMemory::kSize && kPostedAlignment == PostMemory::kAlignment);
static_assert(sizeof(PostOperation) + 32 <= kPostedSize);

constexpr bool fits(std::size_t size, std::size_t alignment) noexcept {
    return size <= kPostedSize && alignment <= kPostedAlignment;
}

}  // namespace

void* take_posted(LoopState& loop, std::size_t size, std::size_t alignment) {
    return fits(size, alignment) ? loop.post_memory().take()
                                 : ::operator new(size, std::align_val_t(alignment));
}

void give_back_posted(LoopState& loop, void* posted, std::size_t size,
                      std::size_t alignment) noexcept {
    if (fits(size, alignment)) {
        loop.post_memory().give_back(posted);
    } else {
        ::operator delete(posted, std::align_val_t(alignment));
    }
}

}  // namespace internal

TimePoint Loop::now() const noexcept { return state_->now(); }

LoopStatistics Loop::statistics() const noexcept { return state_->statistics(); }
Result<int> Loop::descriptor() { return state_->descriptor(); }

}  // namespace berth
