// SPDX-License-Identifier: Apache-2.0
#include "src/engine/scanning_engine.h"

#include <sys/epoll.h>

#include <poll.h>

#include <cerrno>

namespace berth::internal {
namespace {

short interest_of(const OperationList& list, short usual) noexcept {
    int events = 0;
    for (const Operation* operation = list.front(); operation != nullptr;
         operation = operation->next) {
        events |= operation->kind == OperationKind::poll
                      ? static_cast<const PollOperation*>(operation)->events
                      : usual;
    }
    return static_cast<short>(events);
}

}  // namespace

void ScanningEngine::note_change(std::uint32_t index, ReadinessSlot& slot) noexcept {
    if (!slot.is_changed) {
        slot.is_changed = true;
        changed_.push_back(index);
    }
}

int ScanningEngine::parked(SlotHandle handle, ReadinessSlot& slot) noexcept {
    note_change(handle.index, slot);
    return 0;
}

void ScanningEngine::unparked(SlotHandle handle, ReadinessSlot& slot) noexcept {
    note_change(handle.index, slot);
}

void ScanningEngine::detached(ReadinessSlot& slot, Detach) noexcept {
    if (slot.interest != 0) {
        const short before = slot.interest;
        set_interest(slot.place, slot, 0);
        slot.interest = 0;
        mirror(0, slot, before);
    }
}

void ScanningEngine::apply_changes() noexcept {
    for (const std::uint32_t index : changed_) {
        ReadinessSlot& slot = slots_.at(index);
        if (!slot.is_changed) {
            continue;
        }
        slot.is_changed = false;
        const short events =
            static_cast<short>((slot.read_pipe == 0 ? interest_of(slot.reads, POLLIN) : 0) |
                               (slot.write_pipe == 0 ? interest_of(slot.writes, POLLOUT) : 0));
        if (events != slot.interest) {
            const short before = slot.interest;
            set_interest(index, slot, events);
            slot.interest = events;
            mirror(index, slot, before);
        }
    }
    changed_.clear();
}

void ScanningEngine::mirror(std::uint32_t index, const ReadinessSlot& slot, short before) noexcept {
    if (!mirror_.is_open()) {
        return;
    }
    epoll_event event{};
    event.events = static_cast<std::uint16_t>(slot.interest);
    event.data.u32 = index;
    const int operation = slot.interest == 0 ? EPOLL_CTL_DEL
                          : before == 0      ? EPOLL_CTL_ADD
                                             : EPOLL_CTL_MOD;
    ++counted_.interest_count;
    ::epoll_ctl(mirror_.get(), operation, slot.fd, &event);
}

Result<int> ScanningEngine::descriptor() {
    if (mirror_.is_open()) {
        return mirror_.get();
    }
    Descriptor mirror_epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!mirror_epoll.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", "epoll"));
    }
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(mirror_epoll.get(), EPOLL_CTL_ADD, wakeup_.fd(), &event) != 0) {
        return std::unexpected(Error::from_errno(errno, "watch", "eventfd"));
    }
    mirror_ = std::move(mirror_epoll);
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        if (slots_.is_taken(i) && slots_.at(i).interest != 0) {
            mirror(i, slots_.at(i), 0);
        }
    }
    return mirror_.get();
}

void ScanningEngine::add_to(LoopStatistics& statistics) const noexcept {
    ReadinessEngine::add_to(statistics);
    statistics.wake_count += wakeup_.signal_count();
}

}  // namespace berth::internal
