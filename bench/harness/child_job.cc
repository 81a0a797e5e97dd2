// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/child_job.h"

#include "bench/harness/allocation_count.h"
#include "bench/harness/cpus.h"
#include "bench/harness/process.h"
#include "bench/harness/process_figures.h"
#include "bench/harness/statistics.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <new>

namespace berth::bench {

struct ChildJob::Shared {
    ChildReport report;
    bool has_finished = false;
    bool has_failed = false;
    // An Error; its strings are literals, at the same addresses in every forked process.
    std::array<std::byte, sizeof(Error)> error{};
};

namespace {

constexpr char kWord = 'g';

std::uint64_t to_ns(const timeval& time) noexcept {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_usec) * 1'000;
}

/// True once `fd` can be read; false after `timeout`. **Errors:** interrupted.
Result<bool> wait_readable(int fd, std::chrono::milliseconds timeout) {
    pollfd entry = {fd, POLLIN, 0};
    const int count = ::poll(&entry, 1, static_cast<int>(timeout.count()));
    if (count < 0) {
        return std::unexpected(Error(errno == EINTR ? Errc::interrupted : Errc::system, "wait for",
                                     "a benchmark process", errno));
    }
    return count > 0;
}

std::unexpected<Error> too_slow() {
    return std::unexpected(
        Error(Errc::timed_out, "wait for", "a benchmark process", 0, "it does not come to an end"));
}

}  // namespace

void Gate::wait() const noexcept {
    char word = 0;
    if (::send(channel_, &kWord, 1, MSG_NOSIGNAL) != 1 || ::recv(channel_, &word, 1, 0) != 1) {
        ::_exit(1);  // the parent is gone
    }
}

JobClock::Reading JobClock::read(const ChildReport& report) noexcept {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return {now_ns(), process_cpu_ns(0), to_ns(usage.ru_utime), to_ns(usage.ru_stime),
            report.live_allocation_count};
}

JobClock::JobClock(ChildReport& report) noexcept : report_(report), start_(read(report)) {}

void JobClock::stop() const noexcept {
    const Reading end = read(report_);
    report_.real_ns = end.real_ns - start_.real_ns;
    report_.cpu_ns = end.cpu_ns - start_.cpu_ns;
    report_.user_ns = end.user_ns - start_.user_ns;
    report_.system_ns = end.system_ns - start_.system_ns;
    report_.allocation_count = end.allocation_count - start_.allocation_count;
}

Result<ChildJob> ChildJob::start(int cpu, const Body& body) {
    void* const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    if (memory == MAP_FAILED || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return std::unexpected(Error::from_errno(errno, "make", "a benchmark process"));
    }
    auto* const shared = ::new (memory) Shared;
    Descriptor parent_end(ends[0]);
    Descriptor child_end(ends[1]);
    const pid_t process = BERTH_TRY(fork_helper());
    if (process == 0) {
        parent_end.reset();
        std::signal(SIGPIPE, SIG_IGN);
        reset_own_peak_rss();
        pin_to(cpu);
        count_allocations_into(&shared->report.live_allocation_count);
        const Result<void> done = body(shared->report, Gate(child_end.get()));
        count_allocations_into(nullptr);
        shared->report.peak_rss_kib = process_peak_rss_kib(::getpid()).value_or(0);
        if (!done) {
            std::memcpy(shared->error.data(), &done.error(), sizeof(Error));
            shared->has_failed = true;
        }
        shared->has_finished = true;
        ::_exit(0);
    }
    Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    return ChildJob(shared, process, std::move(parent_end), std::move(end));
}

ChildJob::~ChildJob() {
    if (process_ > 0) {
        end_helper(process_);
    }
    if (shared_ != nullptr) {
        ::munmap(shared_, sizeof(Shared));
    }
}

const ChildReport& ChildJob::report() const noexcept { return shared_->report; }

Result<void> ChildJob::wait_for_gate(std::chrono::milliseconds timeout) {
    if (!BERTH_TRY(wait_readable(channel_.get(), timeout))) {
        return too_slow();
    }
    char word = 0;
    if (::recv(channel_.get(), &word, 1, 0) == 1) {
        return {};
    }
    // It has ended before it came to its gate.
    BERTH_TRY(wait(timeout));
    return std::unexpected(Error(Errc::system, "start", "a benchmark process", 0, "it has ended"));
}

void ChildJob::open_gate() noexcept {
    static_cast<void>(::send(channel_.get(), &kWord, 1, MSG_NOSIGNAL));
}

Result<ChildReport> ChildJob::wait(std::chrono::milliseconds timeout) {
    if (!BERTH_TRY(wait_readable(end_.get(), timeout))) {
        end_helper(std::exchange(process_, 0));
        return too_slow();
    }
    wait_for_helper(std::exchange(process_, 0));
    BERTH_TRY(outcome());
    return shared_->report;
}

Result<void> ChildJob::outcome() const {
    if (!shared_->has_finished) {
        return std::unexpected(
            Error(Errc::system, "run", "a benchmark process", 0, "it has crashed"));
    }
    if (shared_->has_failed) {
        Error error(Errc::system, "");
        std::memcpy(&error, shared_->error.data(), sizeof(error));
        return std::unexpected(error);
    }
    return {};
}

}  // namespace berth::bench
