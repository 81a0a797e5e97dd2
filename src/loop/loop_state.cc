// SPDX-License-Identifier: Apache-2.0
#include "src/loop/loop_state.h"

#include "src/base/assert.h"
#include "src/base/system_calls.h"
#include "src/engine/choose_engine.h"
#include "src/engine/wait_time.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace berth::internal {
namespace {

// A timer closer than this cannot wait for the wheel's next full millisecond.
constexpr std::uint64_t kPreciseNs = 1'000'000;

const void* this_thread() noexcept {
    static thread_local const char token = 0;
    return &token;
}

Operation& operation_of(TimerNode& node) noexcept {
    return *reinterpret_cast<Operation*>(reinterpret_cast<std::byte*>(&node) -
                                         offsetof(OperationState, timer));
}

}  // namespace

LoopState::LoopState(const LoopOptions& options, std::string engine_note) noexcept
    : options_(options), engine_note_(std::move(engine_note)), wheel_(monotonic_now_ns()) {}

Result<std::unique_ptr<LoopState>> LoopState::create(const LoopOptions& options) {
    if (options.spin.count() < 0) {
        return std::unexpected(Error(Errc::invalid_argument, "make loop", {}, 0,
                                     "it cannot stay awake for a negative time (spin)",
                                     "0 is not to stay awake at all"));
    }
    EngineChoice choice = BERTH_TRY(choose_engine(options.engine));
    std::unique_ptr<LoopState> state(new LoopState(options, std::move(choice.note)));
    state->engine_ = BERTH_TRY(choice.make(state->ready_));
    return state;
}

LoopState::~LoopState() {
    if (engine_ == nullptr) {
        return;
    }
    check_thread();
    // Lingering sockets end with their timers, while the engine can still close them; so do those
    // that begin to linger in what runs meanwhile.
    do {
        end_timers();
        ready_.append(later_.take_all());
        run_ready();
    } while (!wheel_.is_empty() || !precise_.is_empty() || !ready_.is_empty());
    engine_->shut_down();
    // Completions may submit again: what they submit ends at once, for no socket is left.
    while (!ready_.is_empty() || !later_.is_empty() || !posted_.is_empty()) {
        ready_.append(later_.take_all());
        run_ready();
        run_posted();
        end_timers();
    }
    extension_.reset();
}

void LoopState::check_thread() noexcept {
    if (thread_ == nullptr) {
        thread_ = this_thread();
    }
    BERTH_ASSERT(thread_ == this_thread() &&
                 "a loop, its sockets and operations belong to the thread that runs it: "
                 "use Loop::post() from others");
}

void LoopState::begin_change() noexcept {
    check_thread();
    if (embedding_.is_active() && !is_running_) [[unlikely]] {
        embedding_.set_next(0);
    }
}

// Between two runs any time may pass.
void LoopState::read_clock() noexcept {
    now_ns_ = monotonic_now_ns();
    is_now_known_ = is_running_;
}

Result<SlotHandle> LoopState::attach(int fd, DescriptorKind kind) noexcept {
    check_thread();
    const SlotHandle slot = engine_->attach(fd, kind);
    if (!slot.is_valid()) {
        return std::unexpected(Error::from_errno(errno, "attach", "socket"));
    }
    return slot;
}

Result<SlotHandle> LoopState::attach_own(int fd, DescriptorKind kind) noexcept {
    const Result<SlotHandle> slot = attach(fd, kind);
    if (slot) {
        engine_->note_mode(*slot);
    }
    return slot;
}

void LoopState::detach(SlotHandle slot, Detach how, CloseOperation* closing) noexcept {
    begin_change();
    if (closing != nullptr) {
        BERTH_ASSERT(closing->stage == OperationStage::idle && "an operation is submitted twice");
        closing->cancel_reason = 0;
        closing->stage = OperationStage::waiting;
        note_pending(*closing);
    }
    engine_->detach(slot, how, closing);
}

void LoopState::note_pending(Operation& operation) noexcept {
    operation.loop_state = this;
    ++pending_count_;
    alive_count_ += operation.keeps_alive ? 1 : 0;
}

void LoopState::forget_pending(const Operation& operation) noexcept {
    --pending_count_;
    alive_count_ -= operation.keeps_alive ? 1 : 0;
}

Start LoopState::submit(Operation& operation, SlotHandle slot, Deadline deadline) noexcept {
    begin_change();
    BERTH_ASSERT(operation.stage == OperationStage::idle &&
                 "an operation is submitted twice: wait for its completion first");
    operation.slot = slot;
    operation.cancel_reason = 0;
    if (engine_->submit(operation) == Start::done) {
        if (!operation.always_completes && inline_budget_ > 0) {
            --inline_budget_;
            return Start::done;
        }
        note_pending(operation);
        ready_.push(operation, operation.result);
        return Start::pending;
    }
    note_pending(operation);
    if (!deadline.is_never()) {
        schedule(operation, deadline.resolve_ns(now_ns()));
    }
    return Start::pending;
}

void LoopState::schedule(Operation& operation, std::uint64_t deadline_ns) noexcept {
    const bool is_close = deadline_ns - std::min(deadline_ns, now_ns()) < kPreciseNs;
    // Without memory for the heap a timer is up to a millisecond late.
    operation.is_precise = is_close && precise_.schedule(operation.timer, deadline_ns).has_value();
    if (!operation.is_precise) {
        if (wheel_.is_empty()) {
            // The wheel has not been turned while there was nothing on it.
            TimerList none;
            wheel_.expire(now_ns(), none);
        }
        wheel_.schedule(operation.timer, deadline_ns);
    }
}

void LoopState::unschedule(Operation& operation) noexcept {
    if (!is_scheduled(operation.timer)) {
        return;
    }
    if (operation.is_precise) {
        precise_.cancel(operation.timer);
    } else {
        wheel_.cancel(operation.timer);
    }
}

void LoopState::start_timer(Operation& timer, Deadline deadline) noexcept {
    begin_change();
    BERTH_ASSERT(timer.stage == OperationStage::idle && "a timer is started twice: stop it first");
    timer.cancel_reason = 0;
    timer.stage = OperationStage::waiting;
    note_pending(timer);
    if (!deadline.is_never()) {
        schedule(timer, deadline.resolve_ns(now_ns()));
    }
}

void LoopState::restart_timer(Operation& timer, Deadline deadline) noexcept {
    begin_change();
    if (timer.stage == OperationStage::ready) {
        // It was cancelled and has not completed yet.
        remove_ready(timer);
        timer.stage = OperationStage::idle;
        forget_pending(timer);
    }
    if (timer.stage == OperationStage::idle) {
        start_timer(timer, deadline);
        return;
    }
    const bool is_in_wheel = is_scheduled(timer.timer) && !timer.is_precise;
    const std::uint64_t deadline_ns = deadline.resolve_ns(now_ns());
    if (is_in_wheel && deadline_ns - std::min(deadline_ns, now_ns()) >= kPreciseNs) {
        wheel_.postpone(timer.timer, deadline_ns);
        return;
    }
    unschedule(timer);
    if (!deadline.is_never()) {
        schedule(timer, deadline_ns);
    }
}

void LoopState::start_wait(WaitOperation& operation, OperationList& list,
                           Deadline deadline) noexcept {
    begin_change();
    BERTH_ASSERT(operation.stage == OperationStage::idle &&
                 "an operation is submitted twice: wait for its completion first");
    operation.cancel_reason = 0;
    operation.stage = OperationStage::waiting;
    operation.list = &list;
    list.push_back(operation);
    note_pending(operation);
    if (!deadline.is_never()) {
        schedule(operation, deadline.resolve_ns(now_ns()));
    }
}

void LoopState::end_wait(WaitOperation& operation, int result) noexcept {
    begin_change();
    operation.list->remove(operation);
    unschedule(operation);
    ready_.push(operation, result);
}

void LoopState::cancel_input(SlotHandle slot) noexcept {
    begin_change();
    engine_->cancel_input(slot);
}

void LoopState::complete_later(Operation& operation, int result) noexcept {
    begin_change();
    BERTH_ASSERT(operation.stage == OperationStage::idle &&
                 "an operation is submitted twice: wait for its completion first");
    operation.cancel_reason = 0;
    note_pending(operation);
    operation.result = result;
    operation.stage = OperationStage::ready;
    later_.push_back(operation);
}

void LoopState::cancel(Operation& operation, int reason) noexcept {
    begin_change();
    if (operation.needs_attempt && operation.cancel_reason == 0) {
        // It is tried once more, and then is over.
        operation.cancel_reason = reason;
        unschedule(operation);
    }
    if (operation.stage != OperationStage::waiting || operation.cancel_reason != 0 ||
        operation.kind == OperationKind::close || operation.kind == OperationKind::post) {
        return;
    }
    operation.cancel_reason = reason;
    unschedule(operation);
    if (operation.kind == OperationKind::timer) {
        ready_.push(operation, reason);
    } else if (operation.kind == OperationKind::wait) {
        end_wait(static_cast<WaitOperation&>(operation), reason);
    } else {
        engine_->cancel(operation);
    }
}

void LoopState::remove_ready(Operation& operation) noexcept {
    if (!running_.remove_if_end(operation) && !later_.remove_if_end(operation)) {
        ready_.remove(operation);
    }
}

void LoopState::abandon(Operation& operation) noexcept {
    BERTH_ASSERT(operation.kind != OperationKind::post &&
                 "a posted operation must stay until it has run");
    cancel(operation, -ECANCELED);
    while (operation.stage == OperationStage::waiting) {
        engine_->wait(kNever);
    }
    remove_ready(operation);
    unschedule(operation);
    engine_->forget_untried(operation);
    close_accepted(operation);
    operation.stage = OperationStage::idle;
    forget_pending(operation);
}

// Nobody will ever learn of these connections.
void LoopState::close_accepted(const Operation& operation) noexcept {
    if (operation.kind != OperationKind::accept) {
        return;
    }
    for (const int fd :
         static_cast<const AcceptOperation&>(operation).accepted.first(operation.count())) {
        calls().close(fd);
    }
}

void LoopState::finish(Operation& operation) noexcept {
    operation.stage = OperationStage::idle;
    unschedule(operation);
    forget_pending(operation);
    ++completion_count_;
    inline_budget_ = kInlineBudget;
    operation.complete(operation);
}

// A receive whose completion submits the socket's next one, to be tried, goes on for a while: what
// belongs to the socket is in the cache. The next one is known by its socket, for what has
// completed may be gone, and another socket's operation stand in its place.
void LoopState::run_one(Operation& first) noexcept {
    constexpr int kMostInARow = 16;
    Operation* operation = &first;
    for (int count = 1; operation != nullptr; ++count) {
        const bool is_untried = std::exchange(operation->needs_attempt, false);
        if (is_untried && !engine_->attempt_now(*operation)) {
            return;
        }
        const bool may_go_on =
            operation->kind == OperationKind::receive_lent && count < kMostInARow;
        const SlotHandle slot = operation->slot;
        finish(*operation);
        operation = may_go_on ? ready_.take_last_untried(slot) : nullptr;
    }
}

// What completions cause that is ready at once goes on without a system call in between, for a few
// rounds: a flow of datagrams would otherwise ask the engine after each.
void LoopState::run_ready() noexcept {
    constexpr int kMostRounds = 16;
    for (int round = 0; round < kMostRounds && !ready_.is_empty(); ++round) {
        running_ = ready_.take_all();
        while (!running_.is_empty()) {
            Operation& operation = running_.pop_front();
            prefetch(running_.front());
            run_one(operation);
        }
    }
}

// One wait does not bring all there is (epoll 64 events here, io_uring as little as 20): before
// something is cancelled for being late, the rest is looked at, for it may have its result.
void LoopState::take_late_results() noexcept {
    constexpr int kMostTurns = 1024;
    constexpr std::uint64_t kFewResults = 16;
    const std::uint64_t next_ns = std::min(wheel_.next_expiry_ns(), precise_.next_expiry_ns());
    if (next_ns == kNever || next_ns > now_ns()) {
        return;
    }
    for (int turn = 0; turn < kMostTurns; ++turn) {
        const std::uint64_t before = completion_count_;
        if (engine_->wait(0) != 0 || ready_.is_empty()) {
            return;
        }
        run_ready();
        if (completion_count_ - before < kFewResults) {
            return;
        }
    }
}

// What has a result keeps it; the others are cancelled, and complete in the next iteration.
void LoopState::expire_timers() noexcept {
    if (wheel_.is_empty() && precise_.is_empty()) {
        return;
    }
    TimerList due;
    precise_.expire(now_ns(), due);
    wheel_.expire(now_ns(), due);
    while (TimerNode* node = due.pop_front()) {
        Operation& operation = operation_of(*node);
        if (operation.kind == OperationKind::timer) {
            operation.result = 0;
            finish(operation);
        } else {
            cancel(operation, -ETIMEDOUT);
        }
    }
}

void LoopState::run_posted() noexcept {
    Operation* next = posted_.take_all();
    while (next != nullptr) {
        Operation& operation = *next;
        next = operation.next;
        operation.stage = OperationStage::idle;
        operation.result = 0;
        ++completion_count_;
        inline_budget_ = kInlineBudget;
        prefetch(next);
        operation.complete(operation);
    }
    post_memory_.publish();
}

bool LoopState::is_idle() const noexcept {
    return alive_count_ == 0 && hold_count_ == 0 && ready_.is_empty() && later_.is_empty() &&
           posted_.is_empty();
}

bool LoopState::has_orders() const noexcept {
    return !posted_.is_empty() || is_stop_requested_.load(std::memory_order_seq_cst);
}

std::uint64_t LoopState::wait_deadline_ns(std::uint64_t deadline_ns) noexcept {
    const bool is_flush_due = std::exchange(has_unflushed_, false) && alive_count_ == 0;
    if (!ready_.is_empty() || !later_.is_empty() || std::exchange(is_in_hurry_, false) ||
        is_flush_due) {
        return 0;
    }
    deadline_ns = std::min({deadline_ns, wheel_.next_expiry_ns(), precise_.next_expiry_ns()});
    const auto spin_ns = static_cast<std::uint64_t>(options_.spin.count());
    if (spin_ns != 0 && monotonic_now_ns() - last_event_ns_ < spin_ns) {
        return 0;
    }
    return deadline_ns;
}

int LoopState::wait(std::uint64_t deadline_ns) noexcept {
    deadline_ns = wait_deadline_ns(deadline_ns);
    if (deadline_ns == 0 || has_orders()) {
        return engine_->wait(0);
    }
    // Either a poster sees that the loop sleeps, or the loop sees what was posted. Then it must not
    // be taken for asleep, or every post costs a system call.
    is_asleep_.store(true, std::memory_order_seq_cst);
    if (has_orders()) {
        is_asleep_.store(false, std::memory_order_relaxed);
        deadline_ns = 0;
    }
    const int reason = engine_->wait(deadline_ns);
    is_asleep_.store(false, std::memory_order_relaxed);
    return reason;
}

Result<bool> LoopState::iterate(std::uint64_t deadline_ns) {
    const std::uint64_t completed_before = completion_count_;
    ++iteration_count_;
    const int reason = wait(deadline_ns);
    is_now_known_ = false;
    if (reason != 0) {
        return std::unexpected(Error::from_errno(reason, "wait", to_string(engine_->kind())));
    }
    ready_.append(later_.take_all());
    run_ready();
    take_late_results();
    expire_timers();
    run_posted();
    const bool has_run = completion_count_ != completed_before;
    if (has_run && options_.spin.count() != 0) {
        last_event_ns_ = now_ns();
    }
    if (embedding_.is_active()) {
        const bool has_more = !ready_.is_empty() || !later_.is_empty() || !posted_.is_empty();
        embedding_.set_next(has_more ? 0 : wait_deadline_ns(kNever));
        is_asleep_.store(true, std::memory_order_seq_cst);
    }
    return has_run;
}

/// The loop is in one of its run functions, perhaps of a completion that runs it too.
class LoopState::Running {
public:
    explicit Running(LoopState& loop) noexcept : loop_(loop), was_running_(loop.is_running_) {
        loop.check_thread();
        loop.is_running_ = true;
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() {
        loop_.is_running_ = was_running_;
        loop_.is_now_known_ = loop_.is_now_known_ && was_running_;
    }

private:
    LoopState& loop_;
    bool was_running_;
};

Result<bool> LoopState::run_once(std::uint64_t deadline_ns) {
    const Running running(*this);
    return iterate(deadline_ns);
}

Result<void> LoopState::run() {
    const Running running(*this);
    while (!is_stop_requested_.exchange(false) && !is_idle()) {
        BERTH_TRY(iterate(kNever));
    }
    return {};
}

Result<void> LoopState::run_until(std::uint64_t deadline_ns) {
    const Running running(*this);
    while (!is_stop_requested_.exchange(false)) {
        BERTH_TRY(iterate(deadline_ns));
        if (now_ns() >= deadline_ns) {
            break;
        }
    }
    return {};
}

void LoopState::stop() noexcept {
    is_stop_requested_.store(true, std::memory_order_seq_cst);
    if (is_asleep_.load(std::memory_order_seq_cst)) {
        engine_->wake();
    }
}

void LoopState::wake() noexcept { engine_->wake(); }

void LoopState::post(Operation& operation) noexcept {
    BERTH_ASSERT(operation.stage == OperationStage::idle &&
                 "an operation is posted twice: wait until it has run");
    operation.stage = OperationStage::waiting;
    operation.loop_state = this;
    posted_.push(operation);
    if (is_asleep_.load(std::memory_order_seq_cst)) {
        engine_->wake();
    }
}

Result<int> LoopState::descriptor() {
    check_thread();
    if (!embedding_.is_active()) {
        const int engine_descriptor = BERTH_TRY(engine_->descriptor());
        BERTH_TRY(embedding_.open(engine_descriptor));
        embedding_.set_next(0);
        is_asleep_.store(true, std::memory_order_seq_cst);
    }
    return embedding_.descriptor();
}

LoopStatistics LoopState::statistics() const noexcept {
    LoopStatistics statistics;
    statistics.iteration_count = iteration_count_;
    statistics.completion_count = completion_count_;
    statistics.pending_count = pending_count_;
    engine_->add_to(statistics);
    return statistics;
}

// Timers end as cancelled; what only had a deadline loses it.
void LoopState::end_timers() noexcept {
    TimerList all;
    wheel_.take_all(all);
    precise_.take_all(all);
    while (TimerNode* node = all.pop_front()) {
        Operation& operation = operation_of(*node);
        if (operation.kind == OperationKind::timer) {
            ready_.push(operation, -ECANCELED);
        }
    }
}

}  // namespace berth::internal
