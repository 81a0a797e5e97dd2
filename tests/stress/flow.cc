// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/flow.h"

#include "src/engine/simulation/seeded_random.h"

#include <algorithm>

namespace berth::test::stress {

std::span<const std::byte> Flow::noise() {
    static const std::vector<std::byte> bytes = [] {
        std::vector<std::byte> made(1 << 20);
        internal::simulated::SeededRandom random(20);
        std::ranges::generate(made, [&random] { return static_cast<std::byte>(random.next()); });
        return made;
    }();
    return bytes;
}

Flow::Chunk& Flow::hand_over(std::span<const std::byte> bytes) {
    handed_over_size += bytes.size();
    return chunks.emplace_back(bytes, std::size_t{0});
}

std::optional<std::string> Flow::complaint() const {
    if (is_unknown) {
        return std::nullopt;
    }
    std::span<const std::byte> left = received;
    for (const Chunk& chunk : chunks) {
        const std::size_t size = std::min(left.size(), chunk.sent);
        const auto place = std::ranges::mismatch(left.first(size), chunk.bytes.first(size)).in1;
        if (place != left.begin() + static_cast<std::ptrdiff_t>(size)) {
            const auto offset =
                received.size() - left.size() + static_cast<std::size_t>(place - left.begin());
            return "byte " + std::to_string(offset) + " of " + std::to_string(received.size()) +
                   " that came is not what was sent";
        }
        left = left.subspan(size);
        if (size < chunk.sent && has_ended && !may_be_cut) {
            return "the stream ended in order after " + std::to_string(received.size()) +
                   " bytes, but more were sent";
        }
    }
    if (!left.empty()) {
        return std::to_string(left.size()) + " bytes came that nobody has sent";
    }
    return std::nullopt;
}

}  // namespace berth::test::stress
