// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/io_uring_engine.h"

#include "src/base/system_calls.h"
#include "src/engine/attempt.h"
#include "src/engine/io_uring/probe.h"
#include "src/engine/wait_time.h"

#include <sys/eventfd.h>

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace berth::internal {

EngineResult make_io_uring_engine(ReadyList& ready) {
    return BERTH_TRY(IoUringEngine::create(ready));
}

Result<std::unique_ptr<IoUringEngine>> IoUringEngine::create(ReadyList& ready,
                                                             const IoUringOptions& options) {
    RingFeatures features = BERTH_TRY(probe_io_uring());
    features.has_message_wake = features.has_message_wake && !options.without_message_wake;
    features.has_absolute_timer = features.has_absolute_timer && !options.without_absolute_timer;
    Ring ring = BERTH_TRY(create_ring(options.ring, features));
    std::unique_ptr<IoUringEngine> engine(new IoUringEngine(ready, std::move(ring), options));
    BERTH_TRY(engine->waker_.open(engine->core_.ring.fd(), features.has_message_wake));
    return engine;
}

IoUringEngine::IoUringEngine(ReadyList& ready, Ring ring, const IoUringOptions& options) noexcept
    : Engine(ready),
      core_(ready, std::move(ring), options.buffers),
      receiver_(core_),
      sender_(core_),
      acceptor_(core_, options.most_unclaimed),
      polls_(core_) {}

IoUringEngine::~IoUringEngine() { shut_down(); }

SlotHandle IoUringEngine::attach(int fd, DescriptorKind kind) noexcept {
    const SlotHandle handle = core_.slots.take();
    if (!handle.is_valid()) {
        errno = core_.slots.size() >= SlotTable<RingSlot>::kMostSlots ? EMFILE : ENOMEM;
        return handle;
    }
    RingSlot& slot = core_.slots.at(handle.index);
    slot.index = handle.index;
    slot.fd = fd;
    slot.kind = kind;
    // A datagram that does not fit into its buffer is cut. How much a stream moves, its first
    // receive shows.
    slot.prefers_large = kind == DescriptorKind::datagram || is_stream(kind);
    slot.is_likely_empty = is_stream(kind);
    slot.short_run = RingSlot::kMostShortRun;
    return handle;
}

RingSlot* IoUringEngine::find_open(SlotHandle handle) noexcept {
    RingSlot* slot = core_.slots.find(handle);
    return slot != nullptr && !slot->is_detached ? slot : nullptr;
}

Start IoUringEngine::submit(Operation& operation) noexcept {
    RingSlot* slot = find_open(operation.slot);
    if (slot == nullptr) {
        return Core::answer(operation, -EBADF);
    }
    const Start start = dispatch(*slot, operation);
    push_out();
    return start;
}

Start IoUringEngine::dispatch(RingSlot& slot, Operation& operation) noexcept {
    switch (operation.kind) {
        case OperationKind::accept:
            return slot.kind == DescriptorKind::listener
                       ? acceptor_.submit(slot, static_cast<AcceptOperation&>(operation))
                       : Core::answer(operation, -EINVAL);
        case OperationKind::poll:
            return polls_.submit(slot, static_cast<PollOperation&>(operation));
        case OperationKind::none:
        case OperationKind::close:
        case OperationKind::timer:
        case OperationKind::wait:
        case OperationKind::post:
            return Core::answer(operation, -EINVAL);
        default:
            break;
    }
    if (slot.kind == DescriptorKind::listener) {
        return Core::answer(operation, -ENOTCONN);
    }
    return waits_for_input(operation) ? receiver_.submit(slot, operation)
                                      : sender_.submit(slot, operation);
}

bool IoUringEngine::attempt_now(Operation& operation) noexcept {
    RingSlot* slot = find_open(operation.slot);
    if (slot == nullptr) {
        Core::answer(operation, -ECANCELED);
        return true;
    }
    const bool has_ended = receiver_.attempt_now(*slot, operation);
    push_out();
    return has_ended;
}

void IoUringEngine::forget_untried(Operation& operation) noexcept {
    RingSlot* slot = find_open(operation.slot);
    if (std::exchange(operation.needs_attempt, false) && slot != nullptr) {
        receiver_.forget_untried(*slot);
        push_out();
    }
}

void IoUringEngine::cancel(Operation& operation) noexcept {
    if ((operation.engine_word & kFinished) != 0) {
        return;
    }
    RingSlot& slot = core_.slots.at(operation.slot.index);
    if (operation.kind == OperationKind::accept) {
        acceptor_.cancel(slot, operation);
    } else if (operation.kind == OperationKind::poll) {
        polls_.cancel(slot, operation);
    } else if (waits_for_input(operation)) {
        receiver_.cancel(slot, operation);
    } else {
        sender_.cancel(slot, operation);
    }
    push_out();
}

void IoUringEngine::cancel_input(SlotHandle handle) noexcept {
    RingSlot* slot = find_open(handle);
    if (slot != nullptr) {
        receiver_.cancel_all(*slot);
        polls_.cancel_input(*slot);
        push_out();
    }
}

int IoUringEngine::wait(std::uint64_t deadline_ns) noexcept {
    if (embedding_event_.is_open()) {
        // What is signalled from here on is news.
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t bytes = ::read(embedding_event_.get(), &count, sizeof count);
    }
    start_work();
    // What was sent silently, and what waits for the memory that it holds, must not sleep with us.
    const bool has_to_look = sender_.has_waiting_user() || core_.ring.has_overflow() ||
                             receiver_.has_postponed() ||
                             (sender_.has_silent() && receiver_.has_starved());
    const int result = enter(deadline_ns != 0 && ready_.is_empty() && !has_to_look, deadline_ns);
    switch (result) {
        case 0:
        case -ETIME:
        case -EINTR:
        case -EAGAIN:
        case -EBUSY:
            return 0;
        case -EBADR:
            has_lost_completions_ = true;
            return EBADR;
        default:
            return -result;
    }
}

void IoUringEngine::start_work() noexcept {
    acceptor_.before_wait();
    receiver_.before_wait();
    sender_.before_wait();
    receiver_.resume_postponed();
}

int IoUringEngine::enter(bool may_sleep, std::uint64_t deadline_ns) noexcept {
    if (!has_waker_started_) {
        if (const int result = core_.ring.start(); result < 0) {
            return result;
        }
        has_waker_started_ = true;
        may_sleep = !waker_.start(core_.ring) && may_sleep;
    }
    const int result = core_.ring.enter(may_sleep, deadline_ns);
    reap(core_.ring.taken_position());
    return result;
}

void IoUringEngine::reap(std::uint32_t taken_position) noexcept {
    core_.ring.drain([this](const io_uring_cqe& later) { foresee_slot(later); },
                     [this](const io_uring_cqe& soon) { foresee_operation(soon); },
                     [this](const io_uring_cqe& completion) { take(completion); });
    acceptor_.after_completions();
    core_.cancel_again();
    // A failure may be among the completions that the kernel still holds back.
    if (!core_.ring.has_overflow()) {
        sender_.after_enter(taken_position, [this](RingSlot& slot) { settle(slot); });
    }
}

void IoUringEngine::foresee_slot(const io_uring_cqe& later) noexcept {
    const std::uint32_t index = name_of(later.user_data).handle.index;
    if (tag_of(later.user_data) == RequestTag::receive && index < core_.slots.size()) {
        const auto* slot = reinterpret_cast<const std::byte*>(&core_.slots.at(index));
        __builtin_prefetch(slot, 1);
        __builtin_prefetch(slot + 64, 1);
    }
}

void IoUringEngine::foresee_operation(const io_uring_cqe& soon) noexcept {
    const std::uint32_t index = name_of(soon.user_data).handle.index;
    if (tag_of(soon.user_data) == RequestTag::receive && index < core_.slots.size()) {
        prefetch(core_.slots.at(index).reads.front());
    }
}

void IoUringEngine::take(const io_uring_cqe& completion) noexcept {
    switch (tag_of(completion.user_data)) {
        case RequestTag::operation:
            take_of_operation(completion);
            break;
        case RequestTag::cancel_operation: {
            Operation& operation = operation_of(completion.user_data);
            RingSlot& slot = core_.slots.at(operation.slot.index);
            core_.on_operation_cancelled(operation, completion.res);
            receiver_.resume(slot);
            settle(slot);
            break;
        }
        case RequestTag::wake:
            waker_.on_wake(core_.ring, completion.flags);
            break;
        case RequestTag::all:
            break;
        default:
            take_of_slot(completion);
            break;
    }
}

void IoUringEngine::take_of_operation(const io_uring_cqe& completion) noexcept {
    Operation& operation = operation_of(completion.user_data);
    RingSlot& slot = core_.slots.at(operation.slot.index);
    core_.end_request(slot);
    operation.engine_word &= ~kInFlight;
    if (operation.kind == OperationKind::poll) {
        polls_.on_operation(slot, static_cast<PollOperation&>(operation), completion.res);
    } else if (waits_for_input(operation)) {
        receiver_.on_operation(slot, operation, completion.res, completion.flags);
    } else {
        sender_.on_operation(slot, operation, completion.res);
    }
    settle(slot);
}

void IoUringEngine::take_of_slot(const io_uring_cqe& completion) noexcept {
    const RequestName name = name_of(completion.user_data);
    RingSlot* slot = core_.slots.find(name.handle);
    if (slot == nullptr) {
        return;
    }
    switch (name.tag) {
        case RequestTag::receive:
            receiver_.on_receive(*slot, completion.res, completion.flags);
            break;
        case RequestTag::accept:
            acceptor_.on_accept(*slot, completion.res, completion.flags);
            break;
        case RequestTag::send:
            sender_.on_send(*slot, completion.res);
            break;
        default:
            core_.on_request_cancelled(*slot, name.target, completion.res);
            break;
    }
    settle(*slot);
}

// A foreign loop waits for the ring only: nothing may stay behind in this process.
void IoUringEngine::push_out() noexcept {
    if (!core_.is_embedded) {
        return;
    }
    start_work();
    core_.ring.submit();
    if (!ready_.is_empty()) {
        waker_.wake();
    }
}

// Poll on the ring itself is told of completions, but with DEFER_TASKRUN not of the work that would
// make them (a message of another ring is such): an eventfd is told of both.
Result<int> IoUringEngine::descriptor() {
    if (embedding_event_.is_open()) {
        return embedding_event_.get();
    }
    core_.is_embedded = true;
    if (const int result = enter(false, 0); result < 0 && result != -EINTR && result != -EBUSY) {
        return std::unexpected(Error::from_errno(-result, "start", "io_uring"));
    }
    Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    int fd = event.get();
    if (!event.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", "eventfd"));
    }
    const int result =
        io_uring_register(static_cast<unsigned>(core_.ring.fd()), IORING_REGISTER_EVENTFD, &fd, 1);
    if (result < 0) {
        return std::unexpected(Error::from_errno(-result, "watch", "io_uring"));
    }
    embedding_event_ = std::move(event);
    return embedding_event_.get();
}

void IoUringEngine::add_to(LoopStatistics& statistics) const noexcept {
    statistics.wait_count += core_.ring.enter_count();
    statistics.submission_count += core_.ring.submission_count();
    statistics.wake_count += waker_.wake_count();
    statistics.socket_count += core_.slots.used_count() - detached_count_;
}

}  // namespace berth::internal
