// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

namespace berth::internal {

/// Owns memory of mmap(). Move-only.
class Mapping {
public:
    Mapping() noexcept = default;
    /// Takes what mmap() answered; empty when that was MAP_FAILED.
    Mapping(void* memory, std::size_t size) noexcept
        : memory_(memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory)), size_(size) {}
    Mapping(Mapping&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Mapping() {
        if (memory_ != nullptr) {
            ::munmap(memory_, size_);
        }
    }

    /// Private memory, all zero and page-aligned.
    static Mapping allocate(std::size_t size) noexcept {
        return {::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                size};
    }

    bool is_empty() const noexcept { return memory_ == nullptr; }
    std::byte* data() const noexcept { return memory_; }

private:
    std::byte* memory_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace berth::internal
