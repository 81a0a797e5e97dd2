// SPDX-License-Identifier: Apache-2.0
#include <berth/process.h>

#include "src/loop/loop_state.h"
#include "src/net/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
// glibc 2.36 declares these functions without the linkage of C.
extern "C" {
#include <sys/pidfd.h>
}

#include <cerrno>
#include <csignal>

namespace berth {
namespace {

using internal::DescriptorKind;
using internal::Detach;
using internal::LoopState;

ExitStatus exit_status_of(const siginfo_t& info) noexcept {
    if (info.si_code == CLD_EXITED) {
        return {.code = info.si_status};
    }
    return {.signal = info.si_status, .dumped_core = info.si_code == CLD_DUMPED};
}

// 0, or an errno: EAGAIN while the child runs, if WNOHANG is among the options.
int wait_for(int pidfd, int options, siginfo_t& info) noexcept {
    info = {};
    int result = 0;
    do {
        result = ::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | options);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        return errno;
    }
    return info.si_pid == 0 ? EAGAIN : 0;
}

// Of a child that nobody is going to wait for.
void kill_and_reap(int pidfd) noexcept {
    siginfo_t info;
    if (wait_for(pidfd, WNOHANG, info) == EAGAIN) {
        ::pidfd_send_signal(pidfd, SIGKILL, nullptr, 0);
        wait_for(pidfd, 0, info);
    }
}

}  // namespace

Result<ChildProcess> ChildProcess::spawn(Loop& loop, const std::vector<std::string>& arguments,
                                         const SpawnOptions& options) {
    const pid_t pid = BERTH_TRY(internal::spawn_program(arguments, options));
    Result<ChildProcess> child = adopt(loop, pid);
    if (!child) {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
    }
    return child;
}

Result<ChildProcess> ChildProcess::adopt(Loop& loop, pid_t pid) {
    Descriptor pidfd(::pidfd_open(pid, 0));
    if (!pidfd.is_open()) {
        return std::unexpected(Error::from_errno(errno, "watch", "process"));
    }
    siginfo_t info;
    const int reason = wait_for(pidfd.get(), WNOHANG | WNOWAIT, info);
    if (reason != 0 && reason != EAGAIN) {
        return std::unexpected(Error(Errc::system, "watch", "process", reason,
                                     "it is no child of this process, or SIGCHLD is ignored"));
    }
    LoopState& state = loop.state();
    const auto slot = BERTH_TRY(state.attach(pidfd.get(), DescriptorKind::other));
    return ChildProcess(&state, slot, pidfd.release(), pid);
}

void ChildProcess::take_over(ChildProcess& other) noexcept {
    loop_ = other.loop_;
    slot_ = std::exchange(other.slot_, {});
    pidfd_ = std::exchange(other.pidfd_, -1);
    pid_ = std::exchange(other.pid_, 0);
    status_ = std::exchange(other.status_, std::nullopt);
}

Start ChildProcess::wait(PollOperation& operation, Deadline deadline) noexcept {
    operation.events = POLLIN;
    return internal::submit(loop_, operation, slot_, deadline);
}

Result<ExitStatus> ChildProcess::exit_status() noexcept {
    if (status_) {
        return *status_;
    }
    siginfo_t info;
    const int reason = slot_.is_valid() ? wait_for(pidfd_, WNOHANG, info) : EBADF;
    if (reason == 0) {
        status_ = exit_status_of(info);
        return *status_;
    }
    const char* why = reason == EAGAIN   ? "it has not ended"
                      : reason == ECHILD ? "another has taken its status, or SIGCHLD is ignored"
                                         : nullptr;
    const Errc code = reason == EBADF ? Errc::invalid_argument : Errc::system;
    return std::unexpected(Error(code, "read the status of", "process", reason, why));
}

Result<void> ChildProcess::kill(int signal) noexcept {
    if (::pidfd_send_signal(pidfd_, signal, nullptr, 0) == 0) {
        return {};
    }
    if (errno == ESRCH) {
        return std::unexpected(Error(Errc::closed, "signal", "process", ESRCH, "it has ended"));
    }
    return std::unexpected(Error::from_errno(errno, "signal", "process"));
}

void ChildProcess::forget() noexcept {
    slot_ = {};
    pidfd_ = -1;
    pid_ = 0;
    status_.reset();
}

void ChildProcess::close() noexcept {
    if (!slot_.is_valid()) {
        return;
    }
    if (!status_) {
        kill_and_reap(pidfd_);
    }
    loop_->detach(slot_, Detach::close);
    forget();
}

pid_t ChildProcess::release() noexcept {
    const pid_t pid = pid_;
    if (slot_.is_valid()) {
        loop_->detach(slot_, Detach::close);
    }
    forget();
    return pid;
}

}  // namespace berth
