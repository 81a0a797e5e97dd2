// SPDX-License-Identifier: Apache-2.0
#include "src/engine/epoll_engine.h"

#include "src/base/system_calls.h"
#include "src/engine/wait_time.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

namespace berth::internal {
namespace {

// The memory of them all is fetched at once: of many more it would have left the cache again before
// their turn, for each system call in between brings some kilobytes of the kernel.
constexpr std::size_t kEventBatch = 64;
constexpr std::uint64_t kWakeupData = ~std::uint64_t{0};
constexpr std::uint32_t kInput = EPOLLIN | EPOLLRDHUP | EPOLLPRI | std::uint32_t{EPOLLET};

// ReadinessSlot::interest.
constexpr short kWatchesInput = 1;
constexpr short kWatchesEverything = 2;

std::uint64_t data_of(SlotHandle handle) noexcept {
    return std::uint64_t{handle.generation} << 32 | handle.index;
}

SlotHandle handle_of(std::uint64_t data) noexcept {
    return {static_cast<std::uint32_t>(data), static_cast<std::uint32_t>(data >> 32)};
}

}  // namespace

EngineResult EpollEngine::make(ReadyList& ready) {
    Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", "epoll"));
    }
    Wakeup wakeup = BERTH_TRY(Wakeup::open());
    epoll_event event{};
    event.events = EPOLLIN | std::uint32_t{EPOLLET};
    event.data.u64 = kWakeupData;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wakeup.fd(), &event) != 0) {
        return std::unexpected(Error::from_errno(errno, "watch", "eventfd"));
    }
    return std::unique_ptr<Engine>(new EpollEngine(ready, std::move(epoll), std::move(wakeup)));
}

int EpollEngine::parked(SlotHandle handle, ReadinessSlot& slot) noexcept {
    const short wanted = slot.writes.is_empty() ? kWatchesInput : kWatchesEverything;
    if (slot.interest >= wanted) {
        return 0;
    }
    epoll_event event{};
    event.events = wanted == kWatchesEverything ? kInput | EPOLLOUT : kInput;
    event.data.u64 = data_of(handle);
    ++counted_.interest_count;
    const int action = slot.interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (calls().epoll_ctl(epoll_.get(), action, slot.fd, &event) != 0) {
        return errno;
    }
    slot.interest = wanted;
    return 0;
}

void EpollEngine::detached(ReadinessSlot& slot, Detach how) noexcept {
    if (slot.interest != 0 && how == Detach::keep) {
        epoll_event event{};
        ++counted_.interest_count;
        calls().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, slot.fd, &event);
    }
}

void EpollEngine::forget_interest(ReadinessSlot& slot) noexcept {
    detached(slot, Detach::keep);
    slot.interest = 0;
}

// Without epoll_pwait2 (some seccomp filters, valgrind) a wait is rounded up to milliseconds.
int EpollEngine::wait_for_events(epoll_event* events, std::uint64_t deadline_ns) noexcept {
    constexpr auto kMost = static_cast<int>(kEventBatch);
    const WaitTime time(deadline_ns);
    if (has_pwait2_) {
        const int count = calls().epoll_pwait2(epoll_.get(), events, kMost, time.get(), nullptr);
        if (count >= 0 || errno != ENOSYS) {
            return count;
        }
        has_pwait2_ = false;
    }
    return calls().epoll_pwait(epoll_.get(), events, kMost, time.milliseconds(), nullptr);
}

// The memory of all events is fetched at once, before the system calls that serve them one by one:
// the misses then wait for each other no longer.
void EpollEngine::foresee(std::span<const epoll_event> ready) noexcept {
    for (const epoll_event& event : ready) {
        const SlotHandle handle = handle_of(event.data.u64);
        if (handle.index < slots_.size()) {
            __builtin_prefetch(&slots_.at(handle.index), 1);
        }
    }
    for (const epoll_event& event : ready) {
        const SlotHandle handle = handle_of(event.data.u64);
        if (handle.index < slots_.size()) {
            prefetch(slots_.at(handle.index).reads.front());
        }
    }
}

int EpollEngine::wait(std::uint64_t deadline_ns) noexcept {
    free_unused_pipes();
    std::array<epoll_event, kEventBatch> events;
    ++counted_.wait_count;
    const int count = wait_for_events(events.data(), deadline_ns);
    if (count < 0) {
        return errno == EINTR ? 0 : errno;
    }
    const std::span<const epoll_event> ready(events.data(), static_cast<std::size_t>(count));
    foresee(ready);
    for (const epoll_event& event : ready) {
        if (event.data.u64 == kWakeupData) {
            wakeup_.acknowledge(false);
            continue;
        }
        const SlotHandle handle = handle_of(event.data.u64);
        ReadinessSlot* slot = slots_.find(handle);
        if (slot != nullptr) {
            take_events(handle, *slot, event.events);
        }
    }
    return 0;
}

void EpollEngine::add_to(LoopStatistics& statistics) const noexcept {
    ReadinessEngine::add_to(statistics);
    statistics.wake_count += wakeup_.signal_count();
}

EngineResult make_epoll_engine(ReadyList& ready) { return EpollEngine::make(ready); }

}  // namespace berth::internal
