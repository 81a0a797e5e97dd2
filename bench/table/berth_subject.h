// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/table/subject.h"

#include <berth/ports.h>

#include <vector>

namespace berth::bench {

/// berth's own table, through its public interface.
class BerthSubject final : public Subject {
public:
    enum class Kind : std::uint8_t { without_rest, default_rest, shared_memory };

    static Result<std::unique_ptr<Subject>> create(Kind kind, PortRange range);

    BerthSubject(PortTable table, PortRange range) noexcept
        : table_(std::move(table)), range_(range), held_(range.size()) {}

    PairCount take_and_release(unsigned count) override;
    std::optional<std::uint32_t> take() override;
    void release(std::uint32_t index) override { held_[index].release(); }

private:
    PortTable table_;
    PortRange range_;
    std::vector<Port> held_;  // index = port − range.first; destroyed before the table
};

}  // namespace berth::bench
