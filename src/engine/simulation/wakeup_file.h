// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/file.h"

#include <cstdint>
#include <string>

namespace berth::internal::simulated {

/// What eventfd() makes: a 64-bit counter that is readable while it is not 0.
class WakeupFile final : public File {
public:
    using File::File;

    std::uint32_t poll() override;
    ssize_t read(Incoming& incoming) override;
    ssize_t write(Outgoing& outgoing) override;
    bool is_byte_stream() const override { return false; }
    std::size_t unread_size() const override { return count_ == 0 ? 0 : sizeof(count_); }
    std::string describe() const override { return "wakeup, count " + std::to_string(count_); }

private:
    static constexpr std::uint64_t kMost = ~std::uint64_t{0} - 1;

    std::uint64_t count_ = 0;
};

}  // namespace berth::internal::simulated
