// SPDX-License-Identifier: Apache-2.0
// select() with bit sets of its own: the kernel takes as many bits as it is told of, only the C
// library's fd_set ends at 1,024.
#include "bench/raw/raw_programs.h"
#include "bench/raw/readiness.h"

#include <sys/select.h>

#include <bit>
#include <cstring>

namespace berth::bench::raw {
namespace {

class SelectPoller {
public:
    static constexpr bool kIsEdge = false;
    static constexpr bool kMustReadWakeup = true;

    static Result<SelectPoller> open(std::size_t) { return SelectPoller(); }

    Result<void> add(int fd, std::uint32_t token, Interest interest) {
        const auto index = static_cast<std::size_t>(fd);
        make_room(index);
        token_of_[index] = token;
        set_of(interest).wanted[index / kBits] |= bit(index);
        set_of(interest).count += 1;
        return {};
    }
    Result<void> add_wakeup(int fd) { return add(fd, 0, Interest::read); }

    void remove(int fd) {
        const auto index = static_cast<std::size_t>(fd);
        for (Set* const set : {&read_, &write_}) {
            std::uint64_t& word = set->wanted[index / kBits];
            set->count -= (word & bit(index)) != 0 ? 1U : 0U;
            word &= ~bit(index);
        }
    }

    template <class OnReady>
    Result<void> wait(OnReady on_ready) {
        fd_set* const read = prepare(read_);
        fd_set* const write = prepare(write_);
        const int highest = static_cast<int>(read_.wanted.size() * kBits);
        int left = ::select(highest, read, write, nullptr, nullptr);
        if (left < 0) {
            return errno == EINTR ? Result<void>{} : last_error("select");
        }
        if (read != nullptr) {
            report(read_, false, left, on_ready);
        }
        if (write != nullptr) {
            // What became of a connect() cannot be seen in a bit.
            report(write_, true, left, on_ready);
        }
        return {};
    }

private:
    static constexpr std::size_t kBits = 64;
    struct Set {
        std::vector<std::uint64_t> wanted;
        std::vector<std::uint64_t> ready;
        std::size_t count = 0;
    };

    static std::uint64_t bit(std::size_t index) noexcept { return std::uint64_t{1} << index % 64; }
    Set& set_of(Interest interest) noexcept { return interest == Interest::read ? read_ : write_; }

    void make_room(std::size_t index) {
        if (index < token_of_.size()) {
            return;
        }
        const std::size_t words = index / kBits + 1;
        for (Set* const set : {&read_, &write_}) {
            set->wanted.resize(words);
            set->ready.resize(words);
        }
        token_of_.resize(words * kBits);
    }

    static fd_set* prepare(Set& set) noexcept {
        if (set.count == 0) {
            return nullptr;
        }
        std::memcpy(set.ready.data(), set.wanted.data(), set.wanted.size() * sizeof(std::uint64_t));
        return reinterpret_cast<fd_set*>(set.ready.data());
    }

    template <class OnReady>
    void report(Set& set, bool may_have_failed, int& left, OnReady& on_ready) {
        // A callback may add descriptors, and so make the vectors longer.
        for (std::size_t word = 0; left > 0 && word < set.ready.size(); ++word) {
            for (std::uint64_t bits = set.ready[word]; bits != 0; bits &= bits - 1) {
                const std::size_t index =
                    word * kBits + static_cast<std::size_t>(std::countr_zero(bits));
                --left;
                on_ready(Ready{.fd = static_cast<int>(index),
                               .token = token_of_[index],
                               .may_have_failed = may_have_failed});
            }
        }
    }

    Set read_;
    Set write_;
    std::vector<std::uint32_t> token_of_;  // index = descriptor
};

}  // namespace

Program select_program() { return readiness_program<SelectPoller>("select"); }

}  // namespace berth::bench::raw
