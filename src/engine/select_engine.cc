// SPDX-License-Identifier: Apache-2.0

// select(): three sets of bits, as long as the highest descriptor needs. The kernel of Linux knows
// no FD_SETSIZE, only the C library's fd_set does, so the sets are arrays of our own. Each wait
// copies the used words, and each result is found by counting zeros.

#include "src/base/system_calls.h"
#include "src/engine/scanning_engine.h"
#include "src/engine/wait_time.h"

#include <poll.h>
#include <sys/select.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <vector>

namespace berth::internal {
namespace {

using Word = std::uint64_t;
constexpr std::size_t kWordBits = 64;

class SelectEngine final : public ScanningEngine {
public:
    SelectEngine(ReadyList& ready, Wakeup wakeup) : ScanningEngine(ready, std::move(wakeup)) {
        make_room(wakeup_.fd());
        set(0, wakeup_.fd(), true);
    }

    EngineKind kind() const noexcept override { return EngineKind::select; }
    int wait(std::uint64_t deadline_ns) noexcept override;

protected:
    void set_interest(std::uint32_t index, ReadinessSlot& slot, short events) noexcept override;
    bool tells_errors() const noexcept override { return false; }

private:
    static constexpr std::array<short, 3> kEvents = {POLLIN, POLLOUT, POLLPRI};

    void make_room(int fd);
    void set(std::size_t which, int fd, bool on) noexcept;
    void take_word(std::size_t word) noexcept;
    void drop_closed() noexcept;

    std::array<std::vector<Word>, 3> wanted_;  // read, write, except
    std::array<std::vector<Word>, 3> answer_;
    std::vector<std::uint32_t> slot_indexes_;  // index = descriptor
    std::size_t used_words_ = 0;
};

void SelectEngine::make_room(int fd) {
    const std::size_t words = static_cast<std::size_t>(fd) / kWordBits + 1;
    if (words <= used_words_) {
        return;
    }
    used_words_ = words;
    for (std::vector<Word>& set : wanted_) {
        set.resize(words);
    }
    for (std::vector<Word>& set : answer_) {
        set.resize(words);
    }
    slot_indexes_.resize(words * kWordBits, SlotHandle::kNone);
}

void SelectEngine::set(std::size_t which, int fd, bool on) noexcept {
    const auto bit = static_cast<std::size_t>(fd);
    const Word mask = Word{1} << bit % kWordBits;
    Word& word = wanted_[which][bit / kWordBits];
    word = on ? word | mask : word & ~mask;
}

void SelectEngine::set_interest(std::uint32_t index, ReadinessSlot& slot, short events) noexcept {
    make_room(slot.fd);
    for (std::size_t which = 0; which < kEvents.size(); ++which) {
        set(which, slot.fd, (events & kEvents[which]) != 0);
    }
    slot_indexes_[static_cast<std::size_t>(slot.fd)] = events == 0 ? SlotHandle::kNone : index;
}

void SelectEngine::take_word(std::size_t word) noexcept {
    Word any = answer_[0][word] | answer_[1][word] | answer_[2][word];
    for (; any != 0; any &= any - 1) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(any));
        const std::size_t fd = word * kWordBits + bit;
        unsigned events = 0;
        for (std::size_t which = 0; which < kEvents.size(); ++which) {
            if ((answer_[which][word] >> bit & 1) != 0) {
                events |= static_cast<unsigned>(kEvents[which]);
            }
        }
        if (fd == static_cast<std::size_t>(wakeup_.fd())) {
            wakeup_.acknowledge(true);
        } else if (const std::uint32_t index = slot_indexes_[fd]; index != SlotHandle::kNone) {
            take_events(handle_at(index), slots_.at(index), events);
        }
    }
}

// select() only says that some descriptor is closed; poll() says which.
void SelectEngine::drop_closed() noexcept {
    for (const std::uint32_t index : slot_indexes_) {
        if (index == SlotHandle::kNone) {
            continue;
        }
        ReadinessSlot& slot = slots_.at(index);
        pollfd entry{slot.fd, 0, 0};
        const timespec no_time{};
        if (calls().ppoll(&entry, 1, &no_time, nullptr) == 1 && (entry.revents & POLLNVAL) != 0) {
            take_events(handle_at(index), slot, POLLNVAL);
        }
    }
}

int SelectEngine::wait(std::uint64_t deadline_ns) noexcept {
    free_unused_pipes();
    apply_changes();
    for (std::size_t which = 0; which < kEvents.size(); ++which) {
        std::ranges::copy(wanted_[which], answer_[which].begin());
    }
    const WaitTime time(deadline_ns);
    ++counted_.wait_count;
    const auto as_set = [](std::vector<Word>& set) {
        return reinterpret_cast<fd_set*>(set.data());
    };
    const int left = calls().pselect(static_cast<int>(used_words_ * kWordBits), as_set(answer_[0]),
                                     as_set(answer_[1]), as_set(answer_[2]), time.get(), nullptr);
    if (left < 0 && errno == EBADF) {
        drop_closed();
        return 0;
    }
    if (left < 0) {
        return errno == EINTR ? 0 : errno;
    }
    if (left > 0) {
        for (std::size_t word = 0; word < used_words_; ++word) {
            take_word(word);
        }
    }
    return 0;
}

}  // namespace

EngineResult make_select_engine(ReadyList& ready) {
    return std::make_unique<SelectEngine>(ready, BERTH_TRY(Wakeup::open()));
}

}  // namespace berth::internal
