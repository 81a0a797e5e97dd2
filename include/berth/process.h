// SPDX-License-Identifier: Apache-2.0
#pragma once

// Child processes on the loop: started by posix_spawn, waited for by a pidfd, without SIGCHLD and
// without taking the exit status of anybody else's children.
//
// A child begins with no signal blocked, with SIGPIPE at its default, and with no descriptor of
// this process but the three that it is given. A ChildProcess that goes while its child runs kills
// it (SIGKILL) and waits for that, so no zombie is left; release() lets it live instead.
//
// Limits: where SIGCHLD is ignored the kernel throws exit statuses away, and waiting fails.
//
// Loop thread only. A child process goes before its loop.
//
// Since kernel: 5.4. Source: pidfd_open(2), waitid(2).

#include <berth/awaitable.h>
#include <berth/descriptor.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>

#include <poll.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth {

/// How a process has ended.
struct ExitStatus {
    int code = 0;              ///< What it gave to exit(), 0 to 255; 0 when a signal ended it.
    int signal = 0;            ///< Which signal ended it; 0: none did.
    bool dumped_core = false;  ///< The signal left a core dump.

    bool is_success() const noexcept { return code == 0 && signal == 0; }
    friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

struct SpawnOptions {
    static constexpr int kInherit = -1;     ///< The child shares the one of this process.
    static constexpr int kNullDevice = -2;  ///< /dev/null

    /// Descriptors that become the child's standard input, output and error. They stay the
    /// caller's, who closes them after spawn(): the writing end of a pipe above all.
    int input = kInherit;
    int output = kInherit;
    int error = kInherit;
    /// Where the child begins; empty: where this process is.
    std::string directory = {};
    /// "NAME=value"; default: the environment of this process.
    std::optional<std::vector<std::string>> environment = std::nullopt;
    /// Look a program without '/' up in the PATH of this process.
    bool searches_path = true;
    /// Make the child leader of a process group of its own.
    bool has_own_group = false;
};

class ChildAwaiter;

class BERTH_API ChildProcess {
public:
    ChildProcess() noexcept = default;
    /// Starts arguments[0]. Returns when the program has been loaded.
    /// **Errors:** invalid_argument (no arguments), permission_denied, descriptors_exhausted,
    /// out_of_memory, system (ENOENT, ENOEXEC, …: no such program). **Cost:** vfork() and exec.
    static Result<ChildProcess> spawn(Loop& loop, const std::vector<std::string>& arguments,
                                      const SpawnOptions& options = {});
    /// Takes a child of this process over that was started in another way, and that nobody else
    /// waits for. **Errors:** system (ESRCH, ECHILD: no child of this process), invalid_argument,
    /// descriptors_exhausted.
    static Result<ChildProcess> adopt(Loop& loop, pid_t pid);

    ChildProcess(ChildProcess&& other) noexcept { take_over(other); }
    ChildProcess& operator=(ChildProcess&& other) noexcept {
        if (this != &other) {
            close();
            take_over(other);
        }
        return *this;
    }
    /// As close().
    ~ChildProcess() { close(); }

    /// There is a child, which may have ended.
    bool is_open() const noexcept { return slot_.is_valid(); }
    /// 0 when there is none.
    pid_t pid() const noexcept { return pid_; }

    /// Completes when the child has ended; exit_status() tells how. **Errors:** timed_out,
    /// cancelled, invalid_argument (closed).
    Start wait(PollOperation& operation, Deadline deadline = {}) noexcept;
    /// `Result<ExitStatus> status = co_await child.wait();` The child is not moved meanwhile.
    ChildAwaiter wait(Deadline deadline = {}) noexcept;
    /// Takes the status of a child that has ended, and keeps it. Does not wait. **Errors:** system
    /// (EAGAIN: it runs; ECHILD: somebody else has taken the status, or SIGCHLD is ignored),
    /// invalid_argument (closed).
    Result<ExitStatus> exit_status() noexcept;

    /// Sends a signal, never to another process that got the number of this one.
    /// **Errors:** closed (it has ended), permission_denied (it has become another user's),
    /// invalid_argument.
    Result<void> kill(int signal) noexcept;

    /// Kills the child if it runs, waits until it is gone, and takes its status away. Waiting
    /// operations are cancelled. A child that hangs in the kernel is waited for.
    void close() noexcept;
    /// Lets the child run: its status is the caller's to take. Gives the pid.
    pid_t release() noexcept;

private:
    ChildProcess(internal::LoopState* loop, internal::SlotHandle slot, int pidfd,
                 pid_t pid) noexcept
        : loop_(loop), slot_(slot), pidfd_(pidfd), pid_(pid) {}
    void take_over(ChildProcess& other) noexcept;
    void forget() noexcept;

    internal::LoopState* loop_ = nullptr;
    internal::SlotHandle slot_;
    int pidfd_ = -1;
    pid_t pid_ = 0;
    std::optional<ExitStatus> status_;  // once it was taken
};

class BERTH_API ChildAwaiter final : public Awaiter<PollOperation> {
public:
    ChildAwaiter(internal::LoopState* loop, internal::SlotHandle handle, ChildProcess& child,
                 Deadline deadline) noexcept
        : Awaiter(loop, handle, deadline), child_(child) {
        events = POLLIN;
    }

    Result<ExitStatus> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(Error::from_errno(system_errno(), "wait for", "process"));
        }
        return child_.exit_status();
    }

private:
    ChildProcess& child_;
};

inline ChildAwaiter ChildProcess::wait(Deadline deadline) noexcept {
    return {loop_, slot_, *this, deadline};
}

}  // namespace berth
