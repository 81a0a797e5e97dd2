// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/bpf/namespaces.h"

#include "src/base/assert.h"
#include "src/interpose/bpf/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <cerrno>
#include <unordered_set>

namespace berth::internal::bpf {
namespace {

constexpr const char* kOwn = "/proc/thread-self/ns/net";

bool is_same(const Descriptor& a, const Descriptor& b) {
    struct stat first{};
    struct stat second{};
    return ::fstat(a.get(), &first) == 0 && ::fstat(b.get(), &second) == 0 &&
           first.st_ino == second.st_ino && first.st_dev == second.st_dev;
}

}  // namespace

Result<std::vector<Descriptor>> namespaces_in(const std::string& cgroup) {
    std::vector<Descriptor> found;
    std::unordered_set<ino_t> seen;
    BERTH_TRY(for_each_process(cgroup, [&](pid_t pid) {
        const std::string path = "/proc/" + std::to_string(pid) + "/ns/net";
        struct stat status{};
        if (::stat(path.c_str(), &status) != 0 || seen.contains(status.st_ino)) {
            return true;
        }
        Descriptor netns(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        if (netns.is_open()) {
            seen.insert(status.st_ino);
            found.push_back(std::move(netns));
        }
        return true;
    }));
    return found;
}

Result<void> inside_namespace(const Descriptor& netns, const std::function<Result<void>()>& visit) {
    const Descriptor own(::open(kOwn, O_RDONLY | O_CLOEXEC));
    if (!own.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", kOwn));
    }
    if (is_same(own, netns)) {
        return visit();
    }
    if (::setns(netns.get(), CLONE_NEWNET) != 0) {
        return std::unexpected(Error::from_errno(errno, "enter network namespace"));
    }
    Result<void> outcome = visit();
    // To go on in a namespace that nobody has asked for would be worse than to stop.
    BERTH_ASSERT(::setns(own.get(), CLONE_NEWNET) == 0);
    return outcome;
}

}  // namespace berth::internal::bpf
