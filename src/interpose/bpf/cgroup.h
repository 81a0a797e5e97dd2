// SPDX-License-Identifier: Apache-2.0
#pragma once

// Version 2 cgroups: where they are, making one for a program, and who is in one.

#include <berth/descriptor.h>
#include <berth/error.h>

#include <sys/types.h>

#include <functional>
#include <string>

namespace berth::internal::bpf {

/// Where the cgroup2 file system is mounted, from /proc/self/mountinfo: /sys/fs/cgroup, or
/// /sys/fs/cgroup/unified beside version 1. **Errors:** unsupported.
Result<std::string> cgroup_mount();

/// The cgroup of the calling process. **Errors:** as cgroup_mount(), system.
Result<std::string> own_cgroup();

/// A directory of the cgroup2 file system, opened. **Errors:** invalid_argument when it is none.
Result<Descriptor> open_cgroup(const std::string& path);

/// Calls `visit` with each process in the cgroup and below it; false ends the walk.
Result<void> for_each_process(const std::string& cgroup, const std::function<bool(pid_t)>& visit);

/// A cgroup of our own below the caller's, for one program. Removed by the destructor; processes
/// that are still in it go back to the cgroup above.
class ChildCgroup {
public:
    /// First removes what killed processes have left behind; in other pid namespaces, what is
    /// empty ten minutes later.
    /// **Errors:** permission_denied, unsupported, system.
    static Result<ChildCgroup> create();
    ChildCgroup(ChildCgroup&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    ChildCgroup& operator=(ChildCgroup&&) = delete;
    ~ChildCgroup();

    const std::string& path() const noexcept { return path_; }
    /// Moves a process in. Async-signal-safe apart from errors: for a forked child, pid 0 is
    /// itself.
    Result<void> enter(pid_t pid = 0) const;

private:
    explicit ChildCgroup(std::string path) : path_(std::move(path)) {}

    std::string path_;
};

}  // namespace berth::internal::bpf
