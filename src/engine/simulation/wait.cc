// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/wait.h"

#include "src/base/system_calls.h"
#include "src/engine/simulation/epoll_instance.h"
#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/wait_loop.h"

#include <algorithm>
#include <vector>

namespace berth::internal::simulated {
namespace {

constexpr timespec kNoTime{0, 0};

std::string list_files(const Kernel& kernel, const std::vector<int>& descriptors) {
    std::string text;
    for (const int fd : descriptors) {
        const std::shared_ptr<File> file = kernel.descriptors.find(fd);
        text += "  " + std::to_string(fd) + ": ";
        text += file != nullptr ? file->describe() : "not simulated";
        text += '\n';
    }
    return text;
}

// Returns when the callback may have changed something.
void report_deadlock(Kernel& kernel, const Waiting& waiting) {
    const std::string report = "a wait without end, and nothing will ever happen; it waits for\n" +
                               list_files(kernel, waiting.list());
    if (!kernel.options.on_deadlock) {
        kernel.give_up(report);
    }
    kernel.options.on_deadlock(report);
}

std::optional<Nanoseconds> earlier(std::optional<Nanoseconds> a, std::optional<Nanoseconds> b) {
    return a && b ? std::min(*a, *b) : (a ? a : b);
}

class PollSet final : public Waiting {
public:
    PollSet(const Kernel& kernel, std::span<pollfd> descriptors)
        : kernel_(kernel), descriptors_(descriptors) {
        for (const pollfd& entry : descriptors) {
            if (entry.fd >= 0 && !is_simulated(entry.fd)) {
                real_.push_back(entry);
            }
        }
    }

    int collect() override {
        if (!real_.empty() &&
            kKernelCalls.ppoll(real_.data(), real_.size(), &kNoTime, nullptr) < 0) {
            return -errno;
        }
        int count = 0;
        std::size_t next_real = 0;
        for (pollfd& entry : descriptors_) {
            if (entry.fd >= 0 && !is_simulated(entry.fd)) {
                entry.revents = real_[next_real++].revents;
            } else {
                entry.revents = static_cast<short>(events_of(entry));
            }
            count += entry.revents != 0 ? 1 : 0;
        }
        return count;
    }
    std::vector<int> list() const override {
        std::vector<int> open;
        for (const pollfd& entry : descriptors_) {
            if (entry.fd >= 0) open.push_back(entry.fd);
        }
        return open;
    }

    /// Reports the first from this index on that is waited for and not ready.
    int pretend(std::size_t start) {
        for (std::size_t step = 0; step < descriptors_.size(); ++step) {
            pollfd& entry = descriptors_[(start + step) % descriptors_.size()];
            const std::shared_ptr<File> file = kernel_.descriptors.find(entry.fd);
            const std::uint32_t claimed = file == nullptr ? 0 : file->spurious_events();
            const auto wanted = static_cast<unsigned short>(entry.events) & claimed;
            if (entry.revents == 0 && wanted != 0) {
                entry.revents = static_cast<short>(wanted);
                return 1;
            }
        }
        return 0;
    }

private:
    unsigned events_of(const pollfd& entry) const {
        if (entry.fd < 0) {
            return 0;
        }
        const std::shared_ptr<File> file = kernel_.descriptors.find(entry.fd);
        const auto wanted = static_cast<unsigned short>(entry.events);
        return file == nullptr ? POLLNVAL : file->poll() & (wanted | EPOLLERR | EPOLLHUP);
    }

    const Kernel& kernel_;
    std::span<pollfd> descriptors_;
    std::vector<pollfd> real_;
};

class EpollWaiting final : public Waiting {
public:
    EpollWaiting(EpollInstance& epoll, std::span<epoll_event> events)
        : epoll_(epoll), events_(events) {}

    int collect() override { return epoll_.collect(events_); }
    std::vector<int> list() const override { return epoll_.list(); }

private:
    EpollInstance& epoll_;
    std::span<epoll_event> events_;
};

}  // namespace

int wait_for(Kernel& kernel, const timespec* timeout, Waiting& waiting) {
    std::optional<Nanoseconds> deadline;
    if (timeout != nullptr) {
        const std::optional<Nanoseconds> duration = from_timespec(*timeout);
        if (!duration) {
            return -EINVAL;
        }
        deadline = kernel.clock.now() + *duration;
    }
    bool is_reported = false;
    while (true) {
        kernel.clock.run_due();
        if (const int count = waiting.collect(); count != 0) {
            return count;
        }
        if (deadline && kernel.clock.now() >= *deadline) {
            return 0;
        }
        const std::optional<Nanoseconds> next = earlier(kernel.clock.next_event(), deadline);
        if (next) {
            kernel.clock.run_until(*next);
        } else if (is_reported) {
            return -EINTR;
        } else {
            report_deadlock(kernel, waiting);
            is_reported = true;
        }
    }
}

int wait_epoll(Kernel& kernel, EpollInstance& epoll, std::span<epoll_event> events,
               const timespec* timeout, bool is_spurious) {
    if (is_spurious) {
        epoll.pretend(kernel.faults.draw_below(1'000'000));
    }
    EpollWaiting waiting(epoll, events);
    return wait_for(kernel, timeout, waiting);
}

int wait_poll(Kernel& kernel, std::span<pollfd> descriptors, const timespec* timeout,
              bool is_spurious) {
    PollSet set(kernel, descriptors);
    if (is_spurious && !descriptors.empty()) {
        const int count = set.collect();
        if (set.pretend(kernel.faults.draw_below(descriptors.size())) > 0) {
            return count + 1;
        }
    }
    return wait_for(kernel, timeout, set);
}

}  // namespace berth::internal::simulated
