// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/pipe.h"

#include "src/engine/simulation/kernel.h"

#include <algorithm>

namespace berth::internal::simulated {

// What is over whole pages goes into the last page, if it fits there as a whole.
bool PipeBuffer::merge(Source& source) {
    const std::size_t rest = source.remaining() % kPageSize;
    if (rest == 0 || pages_.empty() || pages_.back().data.size() + rest > kPageSize) {
        return false;
    }
    Bytes& page = pages_.back().data;
    page.resize(page.size() + rest);
    source.copy(std::span(page).last(rest));
    return true;
}

std::size_t PipeBuffer::put(Source& source) {
    const std::size_t asked = source.remaining();
    merge(source);
    while (source.remaining() > 0 && !is_full()) {
        pages_.push_back({source.take(std::min(source.remaining(), kPageSize)), 0});
    }
    const std::size_t taken = asked - source.remaining();
    size_ += taken;
    charge_.resize(size_);
    return taken;
}

std::size_t PipeBuffer::get(Sink& sink) {
    std::size_t total = 0;
    while (!pages_.empty() && sink.remaining() > 0) {
        Page& page = pages_.front();
        const std::size_t count = sink.put(std::span(page.data).subspan(page.read_size));
        total += count;
        page.read_size += count;
        if (page.read_size == page.data.size()) {
            pages_.pop_front();
        }
    }
    size_ -= total;
    charge_.resize(size_);
    return total;
}

std::size_t PipeBuffer::peek(std::span<std::byte> to) const {
    std::size_t total = 0;
    for (const Page& page : pages_) {
        const std::span unread = std::span(page.data).subspan(page.read_size);
        const std::size_t count = std::min(unread.size(), to.size() - total);
        std::ranges::copy(unread.first(count), to.subspan(total).begin());
        total += count;
    }
    return total;
}

std::pair<std::shared_ptr<PipeEnd>, std::shared_ptr<PipeEnd>> PipeEnd::make(Kernel& kernel) {
    auto reader = std::make_shared<PipeEnd>(kernel, false);
    auto writer = std::make_shared<PipeEnd>(kernel, true);
    reader->buffer_ = writer->buffer_ = std::make_shared<PipeBuffer>(kernel.memory);
    reader->other_ = writer;
    writer->other_ = reader;
    return {reader, writer};
}

std::uint32_t PipeEnd::poll() {
    if (is_writer_) {
        return (buffer_->is_full() ? 0U : kWritable) | (other_.expired() ? EPOLLERR : 0U);
    }
    return (buffer_->is_empty() ? 0U : kReadable) | (other_.expired() ? EPOLLHUP : 0U);
}

ssize_t PipeEnd::read(Incoming& incoming) {
    if (is_writer_) {
        return -EBADF;
    }
    if (incoming.data.remaining() == 0) {
        return 0;
    }
    const std::shared_ptr<PipeEnd> writer = other_.lock();
    if (buffer_->is_empty()) {
        return writer == nullptr ? 0 : -EAGAIN;
    }
    const bool was_full = buffer_->is_full();
    const std::size_t count = buffer_->get(incoming.data);
    if (was_full && writer != nullptr && !buffer_->is_full()) {
        writer->wake(kWritable);
    }
    return static_cast<ssize_t>(count);
}

ssize_t PipeEnd::write(Outgoing& outgoing) {
    if (!is_writer_) {
        return -EBADF;
    }
    if (outgoing.data.remaining() == 0) {
        return 0;
    }
    const std::shared_ptr<PipeEnd> reader = other_.lock();
    if (reader == nullptr) {
        ++kernel_.broken_pipe_count;
        return -EPIPE;
    }
    if (!kernel_.memory.has_room_for(std::min(outgoing.data.remaining(), PipeBuffer::kPageSize))) {
        return -ENOMEM;
    }
    const std::size_t count = buffer_->put(outgoing.data);
    if (count == 0) {
        return -EAGAIN;
    }
    reader->wake(kReadable);
    return static_cast<ssize_t>(count);
}

ssize_t PipeEnd::peek(std::span<std::byte> to) const {
    if (is_writer_) {
        return -EBADF;
    }
    if (buffer_->is_empty() && !other_.expired()) {
        return -EAGAIN;
    }
    return static_cast<ssize_t>(buffer_->peek(to));
}

ssize_t PipeEnd::room() const {
    if (!is_writer_) {
        return -EBADF;
    }
    if (other_.expired()) {
        ++kernel_.broken_pipe_count;
        return -EPIPE;
    }
    return buffer_->is_full() ? -EAGAIN : static_cast<ssize_t>(buffer_->room());
}

void PipeEnd::on_close() {
    if (const auto other = other_.lock()) {
        other->other_.reset();
        other->wake(kReadable | EPOLLERR | EPOLLHUP);
    }
}

std::string PipeEnd::describe() const {
    return (is_writer_ ? "pipe to write, " : "pipe to read, ") + std::to_string(buffer_->size()) +
           " bytes in it";
}

}  // namespace berth::internal::simulated
