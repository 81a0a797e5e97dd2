// SPDX-License-Identifier: Apache-2.0

// What an end of a connection sends and receives past this process: files and pipes.

#include "src/base/system_calls.h"
#include "tests/stress/stream_end.h"

#include <string>
#include <utility>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostInPipe = 60'000;  // fits into an empty one

}  // namespace

StreamEnd::FileSend::FileSend(StreamEnd& end, Flow::Chunk& what)
    : chunk(what),
      file(end.world_.simulation().make_file(
          {reinterpret_cast<const char*>(what.bytes.data()), what.bytes.size()})),
      operation(end.world_, end.is_closed_, [&end, this] {
          chunk.sent = operation.sent;
          end.note_part(chunk);
          end.failed(operation.system_errno());
          if (end.world_.dice.chance(0.2)) end.act();
      }) {}

StreamEnd::Pipe::Pipe(World& world) {
    const auto [from, to] = world.simulation().make_pipe();
    out = Descriptor(from);
    in = Descriptor(to);
}

// What stays in the pipe was not handed over.
StreamEnd::PipeSend::PipeSend(StreamEnd& end, Pipe filled, Flow::Chunk& what)
    : chunk(what), pipe(std::move(filled)), operation(end.world_, end.is_closed_, [&end, this] {
          chunk.sent = operation.count();
          end.failed(operation.system_errno());
          if (end.world_.dice.chance(0.2)) end.act();
      }) {}

StreamEnd::PipeReceive::PipeReceive(StreamEnd& end, Pipe empty)
    : arrival(end.await_arrival()),
      pipe(std::move(empty)),
      operation(end.world_, end.is_closed_,
                [&end, this] { end.received(*arrival, read_pipe(), operation.system_errno()); }) {}

std::vector<std::byte> StreamEnd::PipeReceive::read_pipe() const {
    std::vector<std::byte> bytes(operation.count());
    std::size_t size = 0;
    while (size < bytes.size()) {
        const iovec part = {bytes.data() + size, bytes.size() - size};
        const ssize_t count = internal::calls().preadv2(pipe.out.get(), &part, 1, -1, 0);
        if (count > 0) size += static_cast<std::size_t>(count);
    }
    return bytes;
}

void StreamEnd::send_file() {
    forget_finished(file_sends_);
    if (is_closed_ || is_enough() || file_sends_.size() >= kMostPending) {
        return;
    }
    Flow::Chunk& chunk = out().hand_over(choose_bytes(150'000));
    FileSend& send = *file_sends_.emplace_back(std::make_unique<FileSend>(*this, chunk));
    if (!send.file.is_open()) {
        return;
    }
    send.operation.start(world_.dice.deadline(50ms), [&](Deadline deadline) {
        return stream_.send_file(send.operation, send.file.get(), 0, chunk.bytes.size(), deadline);
    });
}

void StreamEnd::send_pipe() {
    forget_finished(pipe_sends_);
    if (is_closed_ || is_enough() || pipe_sends_.size() >= kMostPending) {
        return;
    }
    Pipe pipe(world_);
    std::span<const std::byte> bytes = choose_bytes(kMostInPipe);
    if (!pipe.is_open() || bytes.empty()) {
        return;
    }
    const iovec part = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    const ssize_t count = internal::calls().pwritev2(pipe.in.get(), &part, 1, -1, 0);
    if (count <= 0) {
        return;
    }
    bytes = bytes.first(static_cast<std::size_t>(count));
    Flow::Chunk& chunk = out().hand_over(bytes);
    PipeSend& send =
        *pipe_sends_.emplace_back(std::make_unique<PipeSend>(*this, std::move(pipe), chunk));
    send.operation.start(world_.dice.deadline(50ms), [&](Deadline deadline) {
        return stream_.splice_from(send.operation, send.pipe.out.get(), bytes.size(), deadline);
    });
}

void StreamEnd::receive_into_pipe() {
    forget_finished(pipe_receives_);
    if (is_closed_ || pipe_receives_.size() >= kMostPending) {
        return;
    }
    Pipe pipe(world_);
    if (!pipe.is_open()) {
        return;
    }
    const std::size_t size = 1 + world_.dice.size(kMostInPipe);
    PipeReceive& receive =
        *pipe_receives_.emplace_back(std::make_unique<PipeReceive>(*this, std::move(pipe)));
    receive.operation.start(world_.dice.deadline(30ms), [&](Deadline deadline) {
        return stream_.splice_to(receive.operation, receive.pipe.in.get(), size, deadline);
    });
}

void StreamEnd::check() {
    forget_finished(file_sends_);
    forget_finished(pipe_sends_);
    forget_finished(pipe_receives_);
}

}  // namespace berth::test::stress
