// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/descriptor_table.h"

#include <utility>

namespace berth::internal::simulated {

int DescriptorTable::add(std::shared_ptr<File> file) {
    if (is_full()) {
        return -EMFILE;
    }
    if (free_.empty()) {
        files_.push_back(std::move(file));
        return kFirstDescriptor + static_cast<int>(files_.size()) - 1;
    }
    const int fd = free_.extract(free_.begin()).value();
    files_[index_of(fd)] = std::move(file);
    return fd;
}

std::shared_ptr<File> DescriptorTable::find(int fd) const noexcept {
    if (!is_simulated(fd) || index_of(fd) >= files_.size()) {
        return nullptr;
    }
    return files_[index_of(fd)];
}

int DescriptorTable::remove(int fd) {
    const std::shared_ptr<File> file = find(fd);
    if (file == nullptr) {
        return -EBADF;
    }
    files_[index_of(fd)] = nullptr;
    free_.insert(fd);
    file->release();
    return 0;
}

std::vector<int> DescriptorTable::list() const {
    std::vector<int> open;
    for (std::size_t index = 0; index < files_.size(); ++index) {
        if (files_[index] != nullptr) {
            open.push_back(kFirstDescriptor + static_cast<int>(index));
        }
    }
    return open;
}

}  // namespace berth::internal::simulated
