// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attached until somebody detaches: the programs' links and maps, pinned in a directory of the bpf
// file system that only root may enter. The lock on that directory tells who looks after it; it
// goes with the process, so what a killed one has left is seen for what it is.

#include "src/interpose/bpf/keeper.h"

#include <berth/error.h>
#include <berth/socket.h>

#include <functional>
#include <string>
#include <vector>

namespace berth::internal::bpf {

inline constexpr const char* kDefaultPins = "/sys/fs/bpf/berth";

struct CoverOptions {
    PortRange range = {0, 0};  // {0, 0}: each namespace's own
    Rests rests = {};
    std::vector<PortRange> excluded = {};
};

/// What the programs and the agent are told. **Errors:** invalid_argument.
Result<berth_settings> settings_for(const std::string& cgroup, const CoverOptions& options);

struct AttachReport {
    std::string cgroup;
    LookReport look;
    std::vector<std::string> other_programs;
};

/// Attaches to `cgroup` (empty: the root, which is the whole host) and takes the first look.
/// **Errors:** port_in_use when it is attached already and looked after; permission_denied;
/// unsupported; invalid_argument when there is no such cgroup.
Result<AttachReport> attach(const std::string& cgroup, const std::string& pins,
                            const CoverOptions& options);

/// Takes everything back; nothing stays behind. **Errors:** not_holder when nothing is attached.
Result<void> detach(const std::string& pins);

/// Looks after an attachment until `should_stop` says so (asked 20 times a second), or until it is
/// detached: at least once a second, and soon after ports have run out.
/// **Errors:** not_holder when nothing is attached; port_in_use when another agent is at work.
Result<void> run_agent(const std::string& pins, const std::function<bool()>& should_stop);

}  // namespace berth::internal::bpf
