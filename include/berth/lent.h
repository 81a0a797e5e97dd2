// SPDX-License-Identifier: Apache-2.0
#pragma once

// Received bytes in memory of the loop. The loop reads into page-aligned memory of its own and
// lends it: an idle connection holds no buffer, nothing is copied, and what is given back soon is
// used again while it is still in the processor's cache.

#include <berth/error.h>
#include <berth/export.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace berth {

namespace internal {

/// Whose memory it is. Implemented by the engines.
class BERTH_API Lender {
public:
    /// Takes the memory number `id` back. Loop thread only.
    virtual void take_back(std::uint32_t id) noexcept = 0;

protected:
    ~Lender() = default;
};

}  // namespace internal

/// What a receive brought: bytes, the end of the stream, or an error. Converts to true only when
/// there are bytes. Move-only; gives its memory back when it goes. Loop thread only, and not later
/// than the loop itself.
class BERTH_API Lent {
public:
    Lent() noexcept = default;
    Lent(Lent&& other) noexcept
        : lender_(std::exchange(other.lender_, nullptr)),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          id_(other.id_),
          system_errno_(other.system_errno_) {}
    Lent& operator=(Lent&& other) noexcept {
        if (this != &other) {
            give_back();
            lender_ = std::exchange(other.lender_, nullptr);
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
            id_ = other.id_;
            system_errno_ = other.system_errno_;
        }
        return *this;
    }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent() { give_back(); }

    explicit operator bool() const noexcept { return size_ != 0; }
    std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
    std::byte* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    /// The peer has sent all it will send. (An empty datagram has no bytes either.)
    bool is_end() const noexcept { return size_ == 0 && system_errno_ == 0; }
    bool is_error() const noexcept { return system_errno_ != 0; }
    int system_errno() const noexcept { return system_errno_; }
    Error error() const noexcept { return Error::from_errno(system_errno_, "receive"); }

    /// Leaves out the first `count` bytes, count <= size().
    void remove_prefix(std::size_t count) noexcept {
        data_ += count;
        size_ -= static_cast<std::uint32_t>(count);
    }
    /// Gives the memory back now. Harmless when there is none.
    void give_back() noexcept {
        if (lender_ != nullptr) {
            std::exchange(lender_, nullptr)->take_back(id_);
        }
        data_ = nullptr;
        size_ = 0;
    }

    /// For engines: `size` bytes at `data`, to be given back to `lender` under `id`.
    Lent(internal::Lender& lender, std::uint32_t id, std::byte* data, std::uint32_t size) noexcept
        : lender_(&lender), data_(data), size_(size), id_(id) {}
    /// For engines: no bytes; 0 is the end of the stream.
    explicit Lent(int system_errno) noexcept : system_errno_(system_errno) {}

private:
    internal::Lender* lender_ = nullptr;
    std::byte* data_ = nullptr;
    std::uint32_t size_ = 0;
    std::uint32_t id_ = 0;
    int system_errno_ = 0;
};

}  // namespace berth
