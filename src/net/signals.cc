// SPDX-License-Identifier: Apache-2.0
#include <berth/signals.h>

#include "src/net/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

namespace berth {
namespace internal {
namespace {

std::atomic<std::uint64_t> watched_signals{0};

constexpr std::array kFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

Error refusal(int signal, const char* reason) {
    const char* name = ::sigabbrev_np(signal);
    return {Errc::invalid_argument, "watch", name != nullptr ? name : "signal", 0, reason};
}

}  // namespace

SignalQueue::Claim::~Claim() { watched_signals.fetch_and(~bits_); }

Result<void> SignalQueue::Claim::add(int signal) {
    if (bits_ == 0) {
        sigemptyset(&set_);
    }
    const bool is_fault = std::ranges::find(kFaults, signal) != kFaults.end();
    if (signal == SIGKILL || signal == SIGSTOP || is_fault || sigaddset(&set_, signal) != 0) {
        return std::unexpected(refusal(signal, "it cannot be waited for"));
    }
    const std::uint64_t bit = std::uint64_t{1} << (signal - 1);
    if ((bits_ & bit) == 0 && (watched_signals.fetch_or(bit) & bit) != 0) {
        return std::unexpected(refusal(signal, "another watch of this process has it"));
    }
    bits_ |= bit;
    return {};
}

Result<std::unique_ptr<SignalQueue>> SignalQueue::open(LoopState& loop,
                                                       std::span<const int> signals) {
    std::unique_ptr<SignalQueue> queue(new SignalQueue(loop));
    for (const int signal : signals) {
        BERTH_TRY(queue->claim_.add(signal));
    }
    if (queue->claim_.is_empty()) {
        return std::unexpected(
            Error(Errc::invalid_argument, "watch", "signals", 0, "there are none"));
    }
    BERTH_TRY(queue->start());
    return queue;
}

Result<void> SignalQueue::start() {
    descriptor_.reset(::signalfd(-1, &claim_.set(), SFD_NONBLOCK | SFD_CLOEXEC));
    if (!descriptor_.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", "signalfd"));
    }
    slot_ = BERTH_TRY(loop_.attach(descriptor_.get(), DescriptorKind::other));
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &claim_.set(), &before);
    blocked_ = claim_.set();
    for (int signal = 1; signal < NSIG; ++signal) {
        if (sigismember(&before, signal) == 1) {
            sigdelset(&blocked_, signal);
        }
    }
    has_blocked_ = true;
    return {};
}

SignalQueue::~SignalQueue() {
    if (slot_.is_valid()) {
        loop_.detach(slot_, Detach::keep);
    }
    fail_all(-ECANCELED);
    if (has_blocked_) {
        pthread_sigmask(SIG_UNBLOCK, &blocked_, nullptr);
    }
}

void SignalQueue::fail_all(int result) noexcept {
    while (!waiting_.is_empty()) {
        loop_.end_wait(static_cast<WaitOperation&>(*waiting_.front()), result);
    }
}

bool SignalQueue::take(Signal& signal) noexcept {
    signalfd_siginfo info{};
    ssize_t size = 0;
    do {
        size = ::read(descriptor_.get(), &info, sizeof info);
    } while (size < 0 && errno == EINTR);
    if (size != sizeof info) {
        return false;
    }
    signal = {static_cast<int>(info.ssi_signo), info.ssi_code, static_cast<pid_t>(info.ssi_pid),
              info.ssi_uid, info.ssi_int};
    return true;
}

Start SignalQueue::wait(SignalOperation& operation, Deadline deadline) noexcept {
    if (waiting_.is_empty() && !operation.always_completes && take(operation.signal)) {
        operation.result = 0;
        return Start::done;
    }
    loop_.start_wait(operation, waiting_, deadline);
    if (!ready_.is_pending()) {
        submit(&loop_, ready_, slot_, {});
    }
    return Start::pending;
}

void SignalQueue::serve() noexcept {
    while (!waiting_.is_empty()) {
        auto& first = static_cast<SignalOperation&>(*waiting_.front());
        if (!take(first.signal)) {
            submit(&loop_, ready_, slot_, {});
            return;
        }
        loop_.end_wait(first, 0);
    }
}

void SignalQueue::on_ready(Operation& operation) noexcept {
    SignalQueue& queue = static_cast<ReadyOperation&>(operation).queue;
    if (operation.has_failed()) {
        queue.fail_all(operation.result);
    } else {
        queue.serve();
    }
}

}  // namespace internal

SignalWatch::SignalWatch() noexcept = default;
SignalWatch::SignalWatch(std::unique_ptr<internal::SignalQueue> queue) noexcept
    : queue_(std::move(queue)) {}
SignalWatch::SignalWatch(SignalWatch&&) noexcept = default;
SignalWatch& SignalWatch::operator=(SignalWatch&&) noexcept = default;
SignalWatch::~SignalWatch() = default;

Result<SignalWatch> SignalWatch::open(Loop& loop, std::span<const int> signals) {
    return SignalWatch(BERTH_TRY(internal::SignalQueue::open(loop.state(), signals)));
}

Start SignalWatch::wait(SignalOperation& operation, Deadline deadline) noexcept {
    if (queue_ == nullptr) {
        operation.result = -EBADF;
        return Start::done;
    }
    return queue_->wait(operation, deadline);
}

void SignalWatch::close() noexcept { queue_.reset(); }

}  // namespace berth
