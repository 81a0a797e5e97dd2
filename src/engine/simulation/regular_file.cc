// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/regular_file.h"

#include <algorithm>

namespace berth::internal::simulated {

ssize_t RegularFile::read_at(Incoming& incoming, std::size_t offset) {
    const std::size_t start = std::min(offset, contents_.size());
    return static_cast<ssize_t>(incoming.data.put(std::span(contents_).subspan(start)));
}

ssize_t RegularFile::write_at(Outgoing& outgoing, std::size_t offset) {
    const std::size_t size = outgoing.data.remaining();
    if (size > 0 && offset + size > contents_.size()) {
        contents_.resize(offset + size);
    }
    if (size > 0) {
        outgoing.data.copy(std::span(contents_).subspan(offset, size));
    }
    return static_cast<ssize_t>(size);
}

ssize_t RegularFile::read(Incoming& incoming) {
    const ssize_t count = read_at(incoming, position_);
    position_ += static_cast<std::size_t>(count);
    return count;
}

ssize_t RegularFile::write(Outgoing& outgoing) {
    const ssize_t count = write_at(outgoing, position_);
    position_ += static_cast<std::size_t>(count);
    return count;
}

std::string RegularFile::describe() const {
    return "file of " + std::to_string(contents_.size()) + " bytes";
}

}  // namespace berth::internal::simulated
