// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/export.h>

#include <utility>

namespace berth {

/// Owns one file descriptor and closes it. Move-only; -1 when empty.
class BERTH_API Descriptor {
public:
    Descriptor() noexcept = default;
    /// Takes ownership of `fd`.
    explicit Descriptor(int fd) noexcept : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            reset(std::exchange(other.fd_, -1));
        }
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { reset(); }

    int get() const noexcept { return fd_; }
    bool is_open() const noexcept { return fd_ >= 0; }
    /// Closes what is held and takes `fd` instead.
    void reset(int fd = -1) noexcept;
    /// Gives the descriptor to the caller.
    int release() noexcept { return std::exchange(fd_, -1); }

private:
    int fd_ = -1;
};

}  // namespace berth
