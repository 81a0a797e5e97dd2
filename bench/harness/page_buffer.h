// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <utility>

namespace berth::bench {

/// Page-aligned memory with all its pages present. A receive buffer that starts a few bytes into a
/// page, as malloc's large ones do, makes large reads cost several times as much.
class PageBuffer {
public:
    PageBuffer() noexcept = default;
    explicit PageBuffer(std::size_t size) noexcept {
        void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (memory != MAP_FAILED) {
            bytes_ = {static_cast<std::byte*>(memory), size};
        }
    }
    PageBuffer(PageBuffer&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    PageBuffer& operator=(PageBuffer&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~PageBuffer() {
        if (!bytes_.empty()) {
            ::munmap(bytes_.data(), bytes_.size());
        }
    }

    /// Empty when there was no memory.
    std::span<std::byte> bytes() const noexcept { return bytes_; }

private:
    std::span<std::byte> bytes_;
};

}  // namespace berth::bench
