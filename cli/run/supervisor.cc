// SPDX-License-Identifier: Apache-2.0
#include "cli/run/supervisor.h"

#include <berth/descriptor.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

namespace berth::cli {
namespace {

// What is passed on. What the terminal sends reaches the program by itself.
constexpr int kForwarded[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                              SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};

// What the signal handler works with.
std::atomic<pid_t> program{0};
std::atomic<std::atomic<std::uint32_t>*> wake_word{nullptr};
std::atomic<std::uint32_t> child_count{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);

void on_signal(int signal, siginfo_t* info, void*) {
    const int saved_errno = errno;
    if (signal == SIGCHLD) {
        child_count.fetch_add(1);
        wake_word.load()->fetch_add(1);  // the sleep must not begin just after this
    } else if (info->si_code <= 0) {     // from a process, not from the terminal
        ::kill(program.load(), signal);
    }
    errno = saved_errno;
}

class BlockedSignals {
public:
    BlockedSignals() {
        sigset_t all;
        sigfillset(&all);
        ::sigprocmask(SIG_SETMASK, &all, &before_);
    }
    void restore() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

void install(int signal) {
    struct sigaction action{};
    struct sigaction before{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART | (signal == SIGCHLD ? SA_NOCLDSTOP : 0);
    sigfillset(&action.sa_mask);
    ::sigaction(signal, nullptr, &before);
    // What nohup has switched off stays off.
    if (signal == SIGCHLD || before.sa_handler != SIG_IGN) {
        ::sigaction(signal, &action, nullptr);
    }
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

// In the child. Says through the pipe why the program did not begin.
[[noreturn]] void begin(const ProgramStart& start, int report) {
    const std::vector<char*> environment = pointers_to(start.environment);
    const std::vector<char*> arguments = pointers_to(start.arguments);
    ::execve(start.path.c_str(), arguments.data(), environment.data());
    if (errno == ENOEXEC) {  // a script without a first line that says whose, as execvp() does
        std::vector<std::string> with_shell = start.arguments;
        with_shell[0] = start.path;
        with_shell.insert(with_shell.begin(), "sh");
        ::execve("/bin/sh", pointers_to(with_shell).data(), environment.data());
    }
    const int reason = errno;
    static_cast<void>(!::write(report, &reason, sizeof reason));
    ::_exit(127);
}

int read_start_error(int report) {
    int reason = 0;
    ssize_t size = 0;
    do {
        size = ::read(report, &reason, sizeof reason);
    } while (size < 0 && errno == EINTR);
    return size == static_cast<ssize_t>(sizeof reason) ? reason : 0;
}

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::uint64_t milliseconds) {
    const timespec timeout{static_cast<std::time_t>(milliseconds / 1'000),
                           static_cast<long>(milliseconds % 1'000) * 1'000'000};
    ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

}  // namespace

ProgramEnd Supervisor::run(const ProgramStart& start) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return {.start_error = errno};
    }
    const Descriptor read_end(ends[0]);
    Descriptor write_end(ends[1]);
    const BlockedSignals blocked;
    const pid_t child = ::fork();
    if (child < 0) {
        const int reason = errno;
        blocked.restore();
        return {.start_error = reason};
    }
    if (child == 0) {
        blocked.restore();
        begin(start, write_end.get());
    }
    program.store(child);
    wake_word.store(&wake_);
    for (const int signal : kForwarded) install(signal);
    install(SIGCHLD);
    blocked.restore();
    write_end = Descriptor();
    ProgramEnd end{.start_error = read_start_error(read_end.get())};
    std::uint32_t seen_children = child_count.load();
    std::uint32_t last = wake_.load();
    while (::waitpid(child, &end.wait_status, WNOHANG) == 0) {
        const std::uint32_t now = wake_.load();
        const std::uint32_t children = child_count.load();
        const bool is_woken = now - last != children - seen_children;
        seen_children = children;
        last = now;
        sleep_on(wake_, now, on_pause_(is_woken));
    }
    return end;
}

int end_like(int wait_status) {
    if (WIFEXITED(wait_status)) {
        return WEXITSTATUS(wait_status);
    }
    const int signal = WTERMSIG(wait_status);
    const rlimit no_core{0, 0};  // the program has left its own
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::signal(signal, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
    ::raise(signal);
    return 128 + signal;
}

}  // namespace berth::cli
