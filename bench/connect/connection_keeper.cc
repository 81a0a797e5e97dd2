// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/connection_keeper.h"

#include "bench/harness/process.h"
#include "bench/harness/statistics.h"

#include <unistd.h>

namespace berth::bench {

ConnectionKeeper::~ConnectionKeeper() {
    for (const pid_t helper : helpers_) {
        end_helper(helper);
    }
}

Result<void> ConnectionKeeper::keep(Descriptor socket) {
    sockets_.push_back(std::move(socket));
    if (sockets_.size() < limit_) {
        return {};
    }
    const std::uint64_t start_ns = now_ns();
    BERTH_TRY(hand_over());
    overhead_ns_ += now_ns() - start_ns;
    return {};
}

Result<void> ConnectionKeeper::hand_over() {
    const pid_t helper = BERTH_TRY(fork_helper());
    if (helper == 0) {
        for (;;) {
            ::pause();
        }
    }
    helpers_.push_back(helper);
    sockets_.clear();
    return {};
}

}  // namespace berth::bench
