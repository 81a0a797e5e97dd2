// SPDX-License-Identifier: Apache-2.0
#pragma once

// A table without a kernel, for the tests of its inside.

#include "src/ports/table_core.h"
#include "src/ports/table_memory.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>

namespace berth::test {

class CoreTable {
public:
    explicit CoreTable(PortRange range, std::uint32_t rest_period_ms = 0)
        : memory_(
              internal::TableMemory::create_private({Protocol::udp, rest_period_ms, range, false})
                  .value()),
          core_(memory_.layout()) {
        allow(range);
    }

    internal::TableCore& operator*() noexcept { return core_; }
    internal::TableCore* operator->() noexcept { return &core_; }
    internal::TableLayout& layout() noexcept { return memory_.layout(); }
    internal::PortSpace& space(unsigned index) noexcept { return core_.space(index); }

    /// Changes the range and the ports that exist in it.
    void allow(PortRange range, std::initializer_list<std::uint16_t> reserved = {}) {
        const auto bits = std::make_unique<internal::PortBits>();
        for (unsigned port = range.first; port <= range.last; ++port) {
            (*bits)[port / 64] |= internal::bit_of(static_cast<std::uint16_t>(port));
        }
        for (const std::uint16_t port : reserved) {
            (*bits)[port / 64] &= ~internal::bit_of(port);
        }
        core_.set_allowed(range, *bits);
    }

    /// Ends every rest.
    void end_rests() {
        for (unsigned index = 0; index < internal::kSpaceCount; ++index) {
            while (space(index).end_oldest_rests(core_.rest_rule(),
                                                 internal::RestSearch::thorough) > 0) {
            }
        }
    }

    internal::Footprint wildcard(bool has_v4, bool has_v6) {
        return internal::footprint_of_wildcard(core_.header(), has_v4, has_v6);
    }
    internal::Footprint bind(const Address& local, bool is_dual_stack = false) {
        return internal::footprint_of_bind(core_.header(), local, is_dual_stack);
    }

private:
    internal::TableMemory memory_;
    internal::TableCore core_;
};

}  // namespace berth::test
