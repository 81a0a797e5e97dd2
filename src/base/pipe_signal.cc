// SPDX-License-Identifier: Apache-2.0
#include "src/base/pipe_signal.h"

#include <csignal>
#include <ctime>
#include <utility>

namespace berth::internal {
namespace {

struct ThreadState {
    unsigned holder_count = 0;
    bool was_blocked = false;
    bool was_raised = false;
};

thread_local ThreadState state;

sigset_t only_pipe_signal() noexcept {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

}  // namespace

void block_pipe_signal() noexcept {
    if (state.holder_count++ > 0) {
        return;
    }
    const sigset_t set = only_pipe_signal();
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &set, &before);
    state.was_blocked = sigismember(&before, SIGPIPE) == 1;
}

void release_pipe_signal(bool was_raised) noexcept {
    state.was_raised = state.was_raised || was_raised;
    if (--state.holder_count > 0 || state.was_blocked) {
        return;
    }
    const sigset_t set = only_pipe_signal();
    const timespec no_time{};
    // None is pending, usually: EAGAIN.
    if (std::exchange(state.was_raised, false)) {
        static_cast<void>(sigtimedwait(&set, nullptr, &no_time));
    }
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace berth::internal
