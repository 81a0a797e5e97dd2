// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/system_call_count.h"

#include "bench/harness/statistics.h"

#include <berth/descriptor.h>

#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <array>

namespace berth::bench {
namespace {

constexpr const char* kTracing = "/sys/kernel/tracing";
constexpr const char* kEventFiles[] = {
    "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
    "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id"};

std::uint64_t read_event_id() {
    for (const char* const path : kEventFiles) {
        const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
        std::array<char, 32> text{};
        if (file.is_open() && ::read(file.get(), text.data(), text.size() - 1) > 0) {
            return std::strtoull(text.data(), nullptr, 10);
        }
    }
    return 0;
}

/// Where the file system with the events is not mounted, a child mounts it for itself alone.
std::uint64_t read_event_id_in_child() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return 0;
    }
    const Descriptor reader(ends[0]);
    Descriptor writer(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        std::uint64_t found = 0;
        if (::unshare(CLONE_NEWNS) == 0 &&
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
            ::mount("tracefs", kTracing, "tracefs", 0, nullptr) == 0) {
            found = read_event_id();
        }
        ::_exit(::write(writer.get(), &found, sizeof(found)) == sizeof(found) ? 0 : 1);
    }
    writer.reset();
    std::uint64_t id = 0;
    const bool is_read = ::read(reader.get(), &id, sizeof(id)) == sizeof(id);
    if (child > 0) {
        ::waitpid(child, nullptr, 0);
    }
    return is_read ? id : 0;
}

std::uint64_t event_id() {
    static const std::uint64_t id = [] {
        const std::uint64_t found = read_event_id();
        return found != 0 ? found : read_event_id_in_child();
    }();
    return id;
}

Descriptor open_event(pid_t process) {
    perf_event_attr attributes{};
    attributes.size = sizeof(attributes);
    attributes.type = PERF_TYPE_TRACEPOINT;
    attributes.config = event_id();
    if (attributes.config == 0) {
        return {};
    }
    return Descriptor(static_cast<int>(
        ::syscall(SYS_perf_event_open, &attributes, process, -1, -1, PERF_FLAG_FD_CLOEXEC)));
}

std::optional<std::uint64_t> count_with_event(const Descriptor& event, int done,
                                              std::chrono::milliseconds timeout,
                                              const std::function<void()>& begin) {
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    if (::read(event.get(), &before, sizeof(before)) != sizeof(before)) {
        return std::nullopt;
    }
    begin();
    pollfd entry = {done, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(timeout.count())) != 1 ||
        ::read(event.get(), &after, sizeof(after)) != sizeof(after)) {
        return std::nullopt;
    }
    return after - before;
}

void ignore_signal(int) {}

/// SIGCHLD, which tells of a traced process's stops, comes only inside wait(), and is then seen.
class StopSignals {
public:
    StopSignals() {
        struct sigaction wake{};
        wake.sa_handler = ignore_signal;
        ::sigaction(SIGCHLD, &wake, &old_action_);
        sigset_t blocked;
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGCHLD);
        ::sigprocmask(SIG_BLOCK, &blocked, &old_mask_);
    }
    ~StopSignals() {
        ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
        ::sigaction(SIGCHLD, &old_action_, nullptr);
    }
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    /// True when `done` can be read.
    bool wait(int done, std::uint64_t at_most_ns) const {
        pollfd entry = {done, POLLIN, 0};
        const timespec timeout = {static_cast<time_t>(at_most_ns / 1'000'000'000),
                                  static_cast<long>(at_most_ns % 1'000'000'000)};
        return ::ppoll(&entry, 1, &timeout, &old_mask_) == 1;
    }

private:
    struct sigaction old_action_{};
    sigset_t old_mask_{};
};

class Tracer {
public:
    /// False: it is not allowed.
    bool attach(pid_t process) {
        process_ = process;
        return ::ptrace(PTRACE_SEIZE, process, nullptr, PTRACE_O_TRACESYSGOOD) == 0 &&
               ::ptrace(PTRACE_INTERRUPT, process, nullptr, nullptr) == 0;
    }

    /// Lets the process go on after each of its stops.
    void handle_stops() {
        int status = 0;
        while (!has_ended_ && ::waitpid(process_, &status, WNOHANG | __WALL) == process_) {
            if (!WIFSTOPPED(status)) {
                has_ended_ = true;
                return;
            }
            constexpr int kSystemCall = SIGTRAP | 0x80;
            const int signal = WSTOPSIG(status);
            stop_count_ += signal == kSystemCall ? 1 : 0;
            const bool is_own = signal == kSystemCall || status >> 16 != 0;
            go_on(PTRACE_SYSCALL, is_own ? 0 : signal);
        }
    }

    void detach() {
        if (has_ended_) {
            return;
        }
        ::ptrace(PTRACE_INTERRUPT, process_, nullptr, nullptr);
        int status = 0;
        if (::waitpid(process_, &status, __WALL) == process_ && WIFSTOPPED(status)) {
            go_on(PTRACE_DETACH, 0);
        }
    }

    /// Each call stops twice, on its way in and out.
    std::uint64_t call_count() const noexcept { return (stop_count_ + 1) / 2; }

private:
    void go_on(__ptrace_request request, int signal) {
        ::ptrace(request, process_, nullptr, static_cast<std::intptr_t>(signal));
    }

    pid_t process_ = 0;
    std::uint64_t stop_count_ = 0;
    bool has_ended_ = false;
};

std::optional<std::uint64_t> count_with_ptrace(pid_t process, int done,
                                               std::chrono::milliseconds timeout,
                                               const std::function<void()>& begin) {
    const StopSignals signals;
    Tracer tracer;
    if (!tracer.attach(process)) {
        return std::nullopt;
    }
    const std::uint64_t deadline_ns =
        now_ns() + static_cast<std::uint64_t>(timeout.count()) * 1'000'000;
    begin();
    bool is_done = false;
    for (std::uint64_t now = now_ns(); !is_done && now < deadline_ns; now = now_ns()) {
        is_done = signals.wait(done, deadline_ns - now);
        tracer.handle_stops();
    }
    tracer.detach();
    return is_done ? std::optional(tracer.call_count()) : std::nullopt;
}

}  // namespace

SystemCallCounting system_call_counting() {
    static const bool has_event = open_event(0).is_open();
    return has_event ? SystemCallCounting::tracepoint : SystemCallCounting::ptrace;
}

std::optional<std::uint64_t> count_system_calls(pid_t process, int done,
                                                std::chrono::milliseconds timeout,
                                                const std::function<void()>& begin,
                                                SystemCallCounting how) {
    if (how == SystemCallCounting::tracepoint) {
        const Descriptor event = open_event(process);
        return event.is_open() ? count_with_event(event, done, timeout, begin) : std::nullopt;
    }
    return count_with_ptrace(process, done, timeout, begin);
}

void note_system_call_counting(bool has_counted, Reporter& reporter) {
    static bool is_noted = false;
    if (is_noted || (has_counted && system_call_counting() == SystemCallCounting::tracepoint)) {
        return;
    }
    is_noted = true;
    reporter.note(has_counted
                      ? "system calls are counted with ptrace, which slows the program down: "
                        "with many connections the count is on the low side"
                      : "system calls are not counted: neither the kernel's tracepoint nor "
                        "ptrace may be used here",
                  false);
}

}  // namespace berth::bench
