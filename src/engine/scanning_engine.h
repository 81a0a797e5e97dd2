// SPDX-License-Identifier: Apache-2.0
#pragma once

// What select and poll have in common: the kernel is told again at each wait what to look at. Only
// slots with a parked operation are told, and what changed between two waits is put right once,
// just before the second: a socket whose operation ends and is submitted again costs nothing.

#include "src/engine/readiness_engine.h"
#include "src/engine/wakeup.h"

#include <berth/descriptor.h>

#include <cstdint>
#include <vector>

namespace berth::internal {

class ScanningEngine : public ReadinessEngine {
public:
    void wake() noexcept override { wakeup_.signal(); }
    Result<int> descriptor() override;
    void add_to(LoopStatistics& statistics) const noexcept override;

protected:
    ScanningEngine(ReadyList& ready, Wakeup wakeup) noexcept
        : ReadinessEngine(ready), wakeup_(std::move(wakeup)) {}

    /// What the kernel shall look at of `slot` from now on, as poll() bits; 0: nothing more.
    virtual void set_interest(std::uint32_t index, ReadinessSlot& slot, short events) noexcept = 0;

    int parked(SlotHandle handle, ReadinessSlot& slot) noexcept override;
    void unparked(SlotHandle handle, ReadinessSlot& slot) noexcept override;
    void detached(ReadinessSlot& slot, Detach how) noexcept override;

    /// Brings the kernel's view up to date. Call it first in wait().
    void apply_changes() noexcept;
    SlotHandle handle_at(std::uint32_t index) noexcept {
        return {index, slots_.at(index).generation};
    }

    Wakeup wakeup_;

private:
    void note_change(std::uint32_t index, ReadinessSlot& slot) noexcept;
    void mirror(std::uint32_t index, const ReadinessSlot& slot, short before) noexcept;

    std::vector<std::uint32_t> changed_;
    Descriptor mirror_;  // an epoll with the same interests, for embedding
};

}  // namespace berth::internal
