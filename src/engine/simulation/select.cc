// SPDX-License-Identifier: Apache-2.0
// select() over sets as long as they need be: simulated descriptors lie far beyond FD_SETSIZE.
#include "src/base/system_calls.h"
#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/wait.h"
#include "src/engine/simulation/wait_loop.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <vector>

namespace berth::internal::simulated {
namespace {

using Words = std::vector<unsigned long>;

constexpr std::size_t kWordBits = 64;
constexpr std::size_t kSetCount = 3;
// Which events make a descriptor a member of the read, the write and the except set.
constexpr std::array<std::uint32_t, kSetCount> kEventsOfSet = {
    EPOLLRDNORM | EPOLLRDBAND | EPOLLIN | EPOLLHUP | EPOLLERR,
    EPOLLWRBAND | EPOLLWRNORM | EPOLLOUT | EPOLLERR,
    EPOLLPRI,
};

std::size_t word_count(int count) noexcept {
    return (static_cast<std::size_t>(count) + kWordBits - 1) / kWordBits;
}

Words copy_set(const fd_set* set, int count) {
    Words words(word_count(count), 0);
    if (set != nullptr && count > 0) {
        std::memcpy(words.data(), set, words.size() * sizeof(words[0]));
        const std::size_t spare = words.size() * kWordBits - static_cast<std::size_t>(count);
        words.back() &= ~0UL >> spare;
    }
    return words;
}

void write_set(const Words& words, fd_set* set) {
    if (set != nullptr && !words.empty()) {
        std::memcpy(set, words.data(), words.size() * sizeof(words[0]));
    }
}

class SelectWaiting final : public Waiting {
public:
    SelectWaiting(const Kernel& kernel, const SelectSets& sets)
        : kernel_(kernel),
          wanted_{copy_set(sets.read, sets.count), copy_set(sets.write, sets.count),
                  copy_set(sets.except, sets.count)} {
        for (std::size_t index = 0; index < wanted_[0].size(); ++index) {
            unsigned long word = wanted_[0][index] | wanted_[1][index] | wanted_[2][index];
            for (; word != 0; word &= word - 1) {
                const auto bit = static_cast<std::size_t>(std::countr_zero(word));
                members_.push_back(static_cast<int>(index * kWordBits + bit));
            }
        }
    }

    int collect() override {
        for (Words& words : ready_) words.assign(wanted_[0].size(), 0);
        const int real_count = collect_real();
        if (real_count < 0) {
            return real_count;
        }
        int count = real_count;
        for (const int fd : members_) {
            if (!is_simulated(fd)) {
                continue;
            }
            const std::shared_ptr<File> file = kernel_.descriptors.find(fd);
            if (file == nullptr) {
                return -EBADF;
            }
            count += mark(fd, file->poll());
        }
        return count;
    }
    std::vector<int> list() const override { return members_; }

    /// As if `fd` were ready for all that it is in the sets for.
    int pretend(int fd) {
        const std::shared_ptr<File> file = kernel_.descriptors.find(fd);
        return file == nullptr ? 0 : mark(fd, file->spurious_events());
    }
    const std::vector<int>& members() const noexcept { return members_; }
    void write(const SelectSets& sets) const {
        write_set(ready_[0], sets.read);
        write_set(ready_[1], sets.write);
        write_set(ready_[2], sets.except);
    }

private:
    int mark(int fd, std::uint32_t events) {
        const std::size_t index = static_cast<std::size_t>(fd) / kWordBits;
        const unsigned long bit = 1UL << (static_cast<std::size_t>(fd) % kWordBits);
        int count = 0;
        for (std::size_t set = 0; set < kSetCount; ++set) {
            if ((events & kEventsOfSet[set]) != 0 && (wanted_[set][index] & bit) != 0 &&
                (ready_[set][index] & bit) == 0) {
                ready_[set][index] |= bit;
                ++count;
            }
        }
        return count;
    }

    int collect_real() {
        if (members_.empty() || is_simulated(members_.front())) {
            return 0;
        }
        const auto first_simulated = std::ranges::lower_bound(members_, kFirstDescriptor);
        const int count = *std::prev(first_simulated) + 1;
        for (std::size_t set = 0; set < kSetCount; ++set) {
            std::copy_n(wanted_[set].begin(), word_count(count), ready_[set].begin());
        }
        constexpr timespec kNoTime{0, 0};
        const auto as_set = [](Words& words) { return reinterpret_cast<fd_set*>(words.data()); };
        const int result = kKernelCalls.pselect(count, as_set(ready_[0]), as_set(ready_[1]),
                                                as_set(ready_[2]), &kNoTime, nullptr);
        return result < 0 ? -errno : result;
    }

    const Kernel& kernel_;
    std::array<Words, kSetCount> wanted_;
    std::array<Words, kSetCount> ready_;
    std::vector<int> members_;
};

}  // namespace

int wait_select(Kernel& kernel, const SelectSets& sets, const timespec* timeout, bool is_spurious) {
    if (sets.count < 0) {
        return -EINVAL;
    }
    SelectWaiting waiting(kernel, sets);
    int count = 0;
    if (is_spurious && !waiting.members().empty()) {
        count = waiting.collect();
        const std::size_t index = kernel.faults.draw_below(waiting.members().size());
        if (count >= 0) {
            count += waiting.pretend(waiting.members()[index]);
        }
    }
    if (count == 0) {
        count = wait_for(kernel, timeout, waiting);
    }
    if (count >= 0) {
        waiting.write(sets);
    }
    return count;
}

}  // namespace berth::internal::simulated
