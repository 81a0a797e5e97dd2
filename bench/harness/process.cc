// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/process.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <climits>
#include <csignal>

#include <algorithm>
#include <vector>

namespace berth::bench {

Result<pid_t> fork_helper() {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) {
        return std::unexpected(Error::from_errno(errno, "fork", "a helper process"));
    }
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        std::signal(SIGINT, SIG_IGN);
        if (::getppid() != parent) {
            ::_exit(1);  // the parent died before the kernel knew that it matters
        }
    }
    return child;
}

void close_inherited(std::initializer_list<int> kept) noexcept {
    std::vector<int> boundaries = {STDERR_FILENO};
    boundaries.insert(boundaries.end(), kept);
    std::ranges::sort(boundaries);
    boundaries.push_back(INT_MAX);
    for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
        const auto first = static_cast<unsigned>(boundaries[i]) + 1;
        const auto end = static_cast<unsigned>(boundaries[i + 1]);
        if (first < end) {
            ::close_range(first, end - 1, 0);
        }
    }
}

void wait_for_helper(pid_t helper) noexcept {
    while (::waitpid(helper, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void end_helper(pid_t helper) noexcept {
    ::kill(helper, SIGKILL);
    wait_for_helper(helper);
}

std::int64_t peak_rss_kib() noexcept {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

}  // namespace berth::bench
