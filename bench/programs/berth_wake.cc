// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/berth_jobs.h"

#include <berth/timer.h>

namespace berth::bench {
namespace {

struct Target {
    WakeJob& job;
    Loop& loop;
};

void post(void* target, Posted& item) {
    auto& to = *static_cast<Target*>(target);
    to.loop.post([&to, &item] {
        if (!to.job.arrived(item)) {
            to.loop.stop();
        }
    });
}

}  // namespace

Result<void> berth_wake(WakeJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    Target target{job, loop};
    job.start(&post, &target);
    Result<void> run = loop.run_until(kNoDeadline);
    job.join();
    return run;
}

}  // namespace berth::bench
