// SPDX-License-Identifier: Apache-2.0
#pragma once

// epoll, edge-triggered: a descriptor is registered when an operation first has to wait for it, and
// once more when first a send has to (most never have; told of at once that they could, each new
// connection would cost an event). Otherwise epoll_ctl() is never called for it again (0.7 to 1 us
// each, a tenth of a message). Closing a descriptor that berth owns ends its registration; should a
// forked child keep the same open file alive, its events carry an old generation and are dropped.

#include "src/engine/readiness_engine.h"
#include "src/engine/wakeup.h"

#include <berth/descriptor.h>

#include <sys/epoll.h>

#include <span>

namespace berth::internal {

class EpollEngine : public ReadinessEngine {
public:
    static EngineResult make(ReadyList& ready);

    EngineKind kind() const noexcept override { return EngineKind::epoll; }
    int wait(std::uint64_t deadline_ns) noexcept override;
    void wake() noexcept override { wakeup_.signal(); }
    Result<int> descriptor() override { return epoll_.get(); }
    void add_to(LoopStatistics& statistics) const noexcept override;

protected:
    EpollEngine(ReadyList& ready, Descriptor epoll, Wakeup wakeup) noexcept
        : ReadinessEngine(ready), epoll_(std::move(epoll)), wakeup_(std::move(wakeup)) {}

    int parked(SlotHandle handle, ReadinessSlot& slot) noexcept override;
    void detached(ReadinessSlot& slot, Detach how) noexcept override;
    void forget_interest(ReadinessSlot& slot) noexcept override;

private:
    void foresee(std::span<const epoll_event> ready) noexcept;
    int wait_for_events(epoll_event* events, std::uint64_t deadline_ns) noexcept;

    bool has_pwait2_ = true;
    Descriptor epoll_;
    Wakeup wakeup_;
};

}  // namespace berth::internal
