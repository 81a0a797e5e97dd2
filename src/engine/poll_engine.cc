// SPDX-License-Identifier: Apache-2.0

// poll(): a dense array of what is waited for. A slot knows its place in the array, so an entry is
// added at the end and removed by moving the last one into its place; nothing is searched.

#include "src/base/system_calls.h"
#include "src/engine/scanning_engine.h"
#include "src/engine/wait_time.h"

#include <poll.h>

#include <cerrno>
#include <vector>

namespace berth::internal {
namespace {

class PollEngine final : public ScanningEngine {
public:
    PollEngine(ReadyList& ready, Wakeup wakeup) : ScanningEngine(ready, std::move(wakeup)) {
        entries_.push_back({wakeup_.fd(), POLLIN, 0});
        slot_indexes_.push_back(SlotHandle::kNone);
    }

    EngineKind kind() const noexcept override { return EngineKind::poll; }
    int wait(std::uint64_t deadline_ns) noexcept override;

protected:
    void set_interest(std::uint32_t index, ReadinessSlot& slot, short events) noexcept override;

private:
    void remove(ReadinessSlot& slot) noexcept;

    std::vector<pollfd> entries_;              // the first is the wake-up
    std::vector<std::uint32_t> slot_indexes_;  // index = place in entries_
};

void PollEngine::remove(ReadinessSlot& slot) noexcept {
    const std::uint32_t place = slot.place;
    entries_[place] = entries_.back();
    slot_indexes_[place] = slot_indexes_.back();
    slots_.at(slot_indexes_[place]).place = place;
    slot.place = ReadinessSlot::kNoPlace;
    entries_.pop_back();
    slot_indexes_.pop_back();
}

void PollEngine::set_interest(std::uint32_t index, ReadinessSlot& slot, short events) noexcept {
    if (events == 0) {
        remove(slot);
    } else if (slot.place == ReadinessSlot::kNoPlace) {
        slot.place = static_cast<std::uint32_t>(entries_.size());
        entries_.push_back({slot.fd, events, 0});
        slot_indexes_.push_back(index);
    } else {
        entries_[slot.place].events = events;
    }
}

int PollEngine::wait(std::uint64_t deadline_ns) noexcept {
    free_unused_pipes();
    apply_changes();
    const WaitTime time(deadline_ns);
    ++counted_.wait_count;
    int left = calls().ppoll(entries_.data(), entries_.size(), time.get(), nullptr);
    if (left < 0) {
        return errno == EINTR ? 0 : errno;
    }
    if (left > 0 && entries_.front().revents != 0) {
        wakeup_.acknowledge(true);
        --left;
    }
    // What is taken from an event changes no entry before the next wait.
    for (std::size_t i = 1; left > 0; ++i) {
        const short events = entries_[i].revents;
        if (events != 0) {
            --left;
            const std::uint32_t index = slot_indexes_[i];
            take_events(handle_at(index), slots_.at(index), static_cast<unsigned>(events));
        }
    }
    return 0;
}

}  // namespace

EngineResult make_poll_engine(ReadyList& ready) {
    return std::make_unique<PollEngine>(ready, BERTH_TRY(Wakeup::open()));
}

}  // namespace berth::internal
