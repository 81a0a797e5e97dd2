// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/file.h"

#include <string>
#include <utility>

namespace berth::internal::simulated {

/// A file of a file system: always ready, has positions, cannot be watched by epoll.
class RegularFile final : public File {
public:
    RegularFile(Kernel& kernel, Bytes contents) : File(kernel), contents_(std::move(contents)) {}

    std::uint32_t poll() override { return kReadable | kWritable; }
    ssize_t read(Incoming& incoming) override;
    ssize_t write(Outgoing& outgoing) override;
    ssize_t read_at(Incoming& incoming, std::size_t offset) override;
    ssize_t write_at(Outgoing& outgoing, std::size_t offset) override;
    bool can_be_watched() const override { return false; }
    std::size_t unread_size() const override {
        return position_ < contents_.size() ? contents_.size() - position_ : 0;
    }
    std::string describe() const override;

    const Bytes& contents() const noexcept { return contents_; }
    std::size_t position() const noexcept { return position_; }
    void set_position(std::size_t position) noexcept { position_ = position; }

private:
    Bytes contents_;
    std::size_t position_ = 0;
};

}  // namespace berth::internal::simulated
