// SPDX-License-Identifier: Apache-2.0
#pragma once

// One program under the BPF programs, for `berth run --bpf`: a cgroup of its own with everything
// attached to it, for as long as this object lives. Links are held by descriptors alone, so a
// killed supervisor leaves an empty cgroup and nothing else; the next one removes it.
//
//   Cover cover = BERTH_TRY(Cover::create(options));
//   if (fork() == 0) { cover.enter(); execvp(…); }
//   … every second until the child has ended: cover.look();

#include "src/interpose/bpf/attachment.h"
#include "src/interpose/bpf/cgroup.h"
#include "src/interpose/bpf/keeper.h"
#include "src/interpose/bpf/programs.h"

#include <berth/error.h>

namespace berth::internal::bpf {

class Cover {
public:
    /// **Errors:** permission_denied, unsupported, system.
    static Result<Cover> create(const CoverOptions& options);

    /// Moves the calling process in: the forked child before exec, or the parent before it spawns
    /// one (the destructor moves it back). **Errors:** system.
    Result<void> enter() const { return cgroup_.enter(); }
    /// Compares the tables with the kernel. To be called every second, and when is_asked(); the
    /// programs step aside 10 s after the last time.
    Result<LookReport> look() { return keeper_.look(); }
    /// Whether ports have run out since the last call.
    bool is_asked() const { return keeper_.is_asked(); }
    /// How long the last look took.
    std::uint64_t look_ms() const noexcept { return keeper_.look_ms(); }

    /// What has been done in this network namespace, for --stats.
    Result<berth_counters> counters(Protocol protocol) const;
    const ChildCgroup& cgroup() const noexcept { return cgroup_; }
    const Maps& maps() const noexcept { return keeper_.maps(); }

private:
    Cover(ChildCgroup cgroup, Programs programs, Keeper keeper)
        : cgroup_(std::move(cgroup)), programs_(std::move(programs)), keeper_(std::move(keeper)) {}

    ChildCgroup cgroup_;  // goes last: nothing is attached to it any more
    Programs programs_;
    Keeper keeper_;
};

}  // namespace berth::internal::bpf
