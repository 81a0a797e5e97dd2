// SPDX-License-Identifier: Apache-2.0
#include "src/ports/choice.h"

#include <algorithm>

namespace berth::internal {
namespace {

using Words = std::array<std::uint64_t, kWordCount>;

// Writes the ports that satisfy, from the word of the range's first port on. Returns the number of
// words.
unsigned gather(const Candidates& candidates, Words& words) noexcept {
    const PortRange range = candidates.range;
    const unsigned first_word = range.first / 64U;
    const unsigned count = range.last / 64U - first_word + 1;
    for (unsigned i = 0; i < count; ++i) words[i] = candidates.sets[0]->word(first_word + i);
    for (unsigned s = 1; s < candidates.set_count; ++s) {
        for (unsigned i = 0; i < count; ++i) words[i] &= candidates.sets[s]->word(first_word + i);
    }
    words[0] &= ~std::uint64_t{0} << (range.first % 64);
    words[count - 1] &= ~std::uint64_t{0} >> (63 - range.last % 64);
    if (range.contains(candidates.excluded)) {
        words[candidates.excluded / 64U - first_word] &= ~bit_of(candidates.excluded);
    }
    return count;
}

MaybePort draw_among(const Candidates& candidates, const Words& words, unsigned count,
                     RandomStream& random) noexcept {
    // Telling that there is none costs a third of counting them, and a full table asks often.
    std::uint64_t any = 0;
    for (unsigned i = 0; i < count; ++i) any |= words[i];
    if (any == 0) {
        return {};
    }
    const std::uint32_t total = count_bits(words.data(), count);
    if (total == 0) {
        return {};
    }
    const auto index = select_bit(words.data(), count, random.below(total));
    return static_cast<std::uint16_t>(candidates.range.first / 64U * 64 + *index);
}

}  // namespace

const PortSet& Candidates::scarcest() const noexcept {
    const PortSet* scarcest = sets[0];
    if (set_count == 1) {
        return *scarcest;
    }
    std::uint32_t fewest = scarcest->free_count_hint();
    for (unsigned i = 1; i < set_count; ++i) {
        if (const std::uint32_t count = sets[i]->free_count_hint(); count < fewest) {
            fewest = count;
            scarcest = sets[i];
        }
    }
    return *scarcest;
}

MaybePort draw_exactly(const Candidates& candidates, RandomStream& random) noexcept {
    Words words;
    const unsigned count = gather(candidates, words);
    return draw_among(candidates, words, count, random);
}

MaybePort draw_exactly(const OneSet& candidates, RandomStream& random) noexcept {
    Candidates one;
    one.add(candidates.set);
    one.range = candidates.range;
    return draw_exactly(one, random);
}

MaybePort draw_run_exactly(const Candidates& candidates, unsigned length, unsigned alignment,
                           RandomStream& random) noexcept {
    constexpr std::uint64_t kEvenBits = 0x5555'5555'5555'5555;
    Words words;
    const unsigned count = gather(candidates, words);
    // A bit stays set while the `run` ports from it on are free; runs grow by doubling.
    for (unsigned run = 1; run < length;) {
        const unsigned step = std::min(run, length - run);
        for (unsigned i = 0; i < count; ++i) {
            const std::uint64_t next = i + 1 < count ? words[i + 1] : 0;
            words[i] &= step == 64 ? next : words[i] >> step | next << (64 - step);
        }
        run += step;
    }
    for (unsigned i = 0; alignment == 2 && i < count; ++i) words[i] &= kEvenBits;
    return draw_among(candidates, words, count, random);
}

}  // namespace berth::internal
