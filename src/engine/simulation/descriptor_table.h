// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/file.h"

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

namespace berth::internal::simulated {

/// Above every number that a kernel gives by default (fs.nr_open).
inline constexpr int kFirstDescriptor = 1 << 20;

constexpr bool is_simulated(int fd) noexcept { return fd >= kFirstDescriptor; }

/// Which descriptor is which file. As the kernel does, it gives the lowest free number.
class DescriptorTable {
public:
    explicit DescriptorTable(std::size_t limit) noexcept : limit_(limit) {}

    std::size_t open_count() const noexcept { return files_.size() - free_.size(); }
    bool is_full() const noexcept { return open_count() >= limit_; }
    /// The new descriptor, or -EMFILE.
    int add(std::shared_ptr<File> file);
    /// Null for one that is not open.
    std::shared_ptr<File> find(int fd) const noexcept;
    /// Closes; -EBADF for one that is not open.
    int remove(int fd);
    /// Those that are open, lowest first.
    std::vector<int> list() const;

private:
    static std::size_t index_of(int fd) noexcept {
        return static_cast<std::size_t>(fd - kFirstDescriptor);
    }

    std::size_t limit_;
    std::vector<std::shared_ptr<File>> files_;  // files_[n] is descriptor kFirstDescriptor + n
    std::set<int> free_;                        // numbers below the highest that are not open
};

}  // namespace berth::internal::simulated
