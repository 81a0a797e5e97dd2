// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/holder.h"

#include "bench/bind/port_filler.h"
#include "bench/harness/process.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace berth::bench {
namespace {

[[noreturn]] void hold(const Environment& environment, const Holder::Options& options,
                       SharedArea& area) {
    PortFiller filler(environment, options.protocol, options.family, options.seed);
    if (const Result<void> filled = filler.fill_to(options.port_count); !filled) {
        area.fail(filled.error());
        ::_exit(1);
    }
    area.set_held();
    while (true) {
        ::pause();
    }
}

}  // namespace

Result<Holder> Holder::start(const Environment& environment, const Options& options,
                             SharedArea& area) {
    const pid_t process = BERTH_TRY(fork_helper());
    if (process == 0) {
        hold(environment, options, area);
    }
    Holder holder(process);
    while (!area.is_held()) {
        if (const auto error = area.error()) {
            return std::unexpected(*error);
        }
        if (::waitpid(process, nullptr, WNOHANG) == process) {
            holder.process_ = 0;
            return std::unexpected(area.error().value_or(Error(
                Errc::interrupted, "hold ports", {}, 0, "the process that holds them was killed")));
        }
        ::poll(nullptr, 0, 1);
    }
    return holder;
}

Holder::~Holder() {
    if (process_ != 0) {
        end_helper(process_);
    }
}

}  // namespace berth::bench
