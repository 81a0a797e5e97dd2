// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/file.h"

#include "src/engine/simulation/kernel.h"

#include <utility>

namespace berth::internal::simulated {

void File::release() {
    forget_watchers();
    on_close();
}

void File::forget_watchers() {
    for (Watcher* watcher : std::exchange(watchers_, {})) watcher->on_release();
}

void File::wake(std::uint32_t events) {
    for (Watcher* watcher : watchers_) watcher->on_wake(events);
}

void File::wake_soon() {
    constexpr Nanoseconds kMoment = std::chrono::microseconds(1);
    kernel_.clock.schedule(kMoment, [file = weak_from_this()] {
        if (const auto alive = file.lock()) {
            alive->wake(0);
        }
    });
}

}  // namespace berth::internal::simulated
