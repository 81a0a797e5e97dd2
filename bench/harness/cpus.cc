// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/cpus.h"

#include <sched.h>

namespace berth::bench {

CpuPair choose_cpus() noexcept {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    if (::sched_getaffinity(0, sizeof(usable), &usable) != 0 || CPU_COUNT(&usable) < 2) {
        return {};
    }
    CpuPair pair;
    for (int cpu = 0; cpu < CPU_SETSIZE && pair.server < 0; ++cpu) {
        if (CPU_ISSET(static_cast<unsigned>(cpu), &usable)) {
            (pair.client < 0 ? pair.client : pair.server) = cpu;
        }
    }
    return pair;
}

void pin_to(int cpu) noexcept {
    if (cpu < 0) {
        return;
    }
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<unsigned>(cpu), &only);
    // Where it is refused the figures are noisier, and their spread says so.
    static_cast<void>(::sched_setaffinity(0, sizeof(only), &only));
}

}  // namespace berth::bench
