// SPDX-License-Identifier: Apache-2.0
#include "src/ports/choice.h"

#include <algorithm>

namespace berth::internal {
namespace {

// The bits of word `index` that lie in the range and are not the excluded port.
std::uint64_t mask_of_word(const Candidates& candidates, unsigned index) noexcept {
    std::uint64_t mask = ~std::uint64_t{0};
    if (index == candidates.range.first / 64U) {
        mask &= ~std::uint64_t{0} << (candidates.range.first % 64);
    }
    if (index == candidates.range.last / 64U) {
        mask &= ~std::uint64_t{0} >> (63 - candidates.range.last % 64);
    }
    if (candidates.excluded != 0 && index == candidates.excluded / 64U) {
        mask &= ~bit_of(candidates.excluded);
    }
    return mask;
}

using Words = std::array<std::uint64_t, kWordCount>;

// Writes the ports that satisfy, from the word of the range's first port on. Returns the number of
// words.
unsigned gather(const Candidates& candidates, Words& words) noexcept {
    const unsigned first_word = candidates.range.first / 64U;
    const unsigned count = candidates.range.last / 64U - first_word + 1;
    for (unsigned i = 0; i < count; ++i) {
        std::uint64_t word = mask_of_word(candidates, first_word + i);
        for (unsigned s = 0; s < candidates.set_count && word != 0; ++s) {
            word &= candidates.sets[s]->word(first_word + i);
        }
        words[i] = word;
    }
    return count;
}

MaybePort draw_among(const Candidates& candidates, const Words& words, unsigned count,
                     RandomStream& random) noexcept {
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
