// SPDX-License-Identifier: Apache-2.0
// `berth bench connect`: what TCP connections cost while the ports towards a destination run out.

#include "bench/connect/connect_plan.h"
#include "bench/connect/exhaustion_bench.h"
#include "bench/connect/occupancy_bench.h"

namespace berth::bench {
namespace {

Result<void> run_plan(const ConnectPlan& plan, const Environment& environment, Reporter& reporter) {
    for (const Family family : plan.families) {
        for (const unsigned count : plan.destination_counts) {
            BERTH_TRY(measure_connect_by_occupancy(plan, environment, family, count, reporter));
            BERTH_TRY(measure_connect_until_exhaustion(plan, environment, family, count, reporter));
        }
    }
    return {};
}

}  // namespace

Result<void> run_connect(const Selection& selection, const Environment& environment,
                         Reporter& reporter) {
    const ConnectPlan plan = BERTH_TRY(make_connect_plan(selection, environment, reporter));
    const Result<void> done = run_plan(plan, environment, reporter);
    // Ctrl-C ends the wait for a worker: what was measured before it stands.
    return reporter.is_interrupted() ? Result<void>{} : done;
}

}  // namespace berth::bench
