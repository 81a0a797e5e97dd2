// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/ports/table_core.h"

#include <bit>
#include <cstdint>

namespace berth::internal {

/// Calls `visit(port, owner)` for each port of the space that is neither free nor resting.
template <class Visit>
void for_each_taken_port(const TableCore& core, unsigned space_index, Visit visit) {
    const PortSpace& space = core.space(space_index);
    const AllowedPorts allowed = core.allowed();
    for (unsigned i = allowed.first_word; i <= allowed.last_word; ++i) {
        std::uint64_t taken = allowed.bits[i].load(std::memory_order_relaxed) &
                              ~space.free.word(i) & ~space.resting.word(i);
        for (; taken != 0; taken &= taken - 1) {
            const auto port =
                static_cast<std::uint16_t>(i * 64 + static_cast<unsigned>(std::countr_zero(taken)));
            visit(port, space.owner(port));
        }
    }
}

/// Calls `visit(index)` for each space that was ever claimed in.
template <class Visit>
void for_each_used_space(const TableCore& core, Visit visit) {
    for (std::uint32_t spaces = core.used_spaces(); spaces != 0; spaces &= spaces - 1) {
        visit(static_cast<unsigned>(std::countr_zero(spaces)));
    }
}

}  // namespace berth::internal
