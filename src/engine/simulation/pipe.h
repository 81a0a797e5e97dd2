// SPDX-License-Identifier: Apache-2.0
#pragma once

// A pipe: sixteen pages, filled and emptied as the kernel does it, so that a write of a page or
// less is never split and a pipe of many small writes is full as early as a real one.
//
// Source: fs/pipe.c of Linux 6.x.

#include "src/engine/simulation/byte_queue.h"
#include "src/engine/simulation/file.h"

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace berth::internal::simulated {

class PipeEnd;

/// What the two ends share.
class PipeBuffer {
public:
    static constexpr std::size_t kPageSize = 4'096;
    static constexpr std::size_t kPageCount = 16;

    explicit PipeBuffer(MemoryBudget& budget) noexcept : charge_(budget) {}

    bool is_empty() const noexcept { return pages_.empty(); }
    bool is_full() const noexcept { return pages_.size() >= kPageCount; }
    std::size_t size() const noexcept { return size_; }
    /// Takes what there is room for.
    std::size_t put(Source& source);
    std::size_t get(Sink& sink);
    /// Copies the first bytes and leaves them; how many.
    std::size_t peek(std::span<std::byte> to) const;
    /// What a write is sure to find room for.
    std::size_t room() const noexcept { return (kPageCount - pages_.size()) * kPageSize; }

private:
    struct Page {
        Bytes data;
        std::size_t read_size = 0;
    };

    bool merge(Source& source);

    std::deque<Page> pages_;
    std::size_t size_ = 0;
    MemoryCharge charge_;
};

class PipeEnd final : public File {
public:
    /// The end to read from, and the end to write to.
    static std::pair<std::shared_ptr<PipeEnd>, std::shared_ptr<PipeEnd>> make(Kernel& kernel);

    PipeEnd(Kernel& kernel, bool is_writer) : File(kernel), is_writer_(is_writer) {}

    std::uint32_t poll() override;
    ssize_t read(Incoming& incoming) override;
    ssize_t write(Outgoing& outgoing) override;
    std::size_t unread_size() const override { return buffer_->size(); }

    // For splice(): what read() and write() would do, without doing it. Minus errno, 0 at the end.
    ssize_t peek(std::span<std::byte> to) const;
    ssize_t room() const;
    std::string describe() const override;

private:
    void on_close() override;

    bool is_writer_;
    std::shared_ptr<PipeBuffer> buffer_;
    std::weak_ptr<PipeEnd> other_;  // empty when it is closed
};

}  // namespace berth::internal::simulated
