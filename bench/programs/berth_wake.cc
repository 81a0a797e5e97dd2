// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/berth_jobs.h"
#include "bench/programs/posted_items.h"

namespace berth::bench {

Result<void> berth_wake(WakeJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    PostedItems items(loop, job, [&job, &loop](Posted& item) {
        if (!job.arrived(item)) {
            loop.stop();
        }
    });
    job.start(items.post, &items);
    Result<void> run = loop.run_until(kNoDeadline);
    job.join();
    return run;
}

}  // namespace berth::bench
