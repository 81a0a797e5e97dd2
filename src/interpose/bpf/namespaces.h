// SPDX-License-Identifier: Apache-2.0
#pragma once

// The network namespaces of the processes in a cgroup. None is held open between two looks: a
// namespace must be able to end.

#include <berth/descriptor.h>
#include <berth/error.h>

#include <functional>
#include <string>
#include <vector>

namespace berth::internal::bpf {

/// One descriptor for each. Processes that may not be looked at are left out.
Result<std::vector<Descriptor>> namespaces_in(const std::string& cgroup);

/// Calls `visit` with the calling thread inside the namespace, and returns the thread to its own.
/// **Errors:** permission_denied (CAP_SYS_ADMIN, unless it is the thread's own already), and those
/// of `visit`.
Result<void> inside_namespace(const Descriptor& netns, const std::function<Result<void>()>& visit);

}  // namespace berth::internal::bpf
