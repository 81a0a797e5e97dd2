// SPDX-License-Identifier: Apache-2.0
// Datagrams and posts over berth in coroutines.
#include "bench/programs/berth_jobs.h"
#include "bench/programs/datagram_rooms.h"
#include "bench/programs/posted_items.h"

#include <berth/datagram_socket.h>
#include <berth/event.h>
#include <berth/task.h>

namespace berth::bench {
namespace {

Task<Result<void>> receive_one_by_one(DatagramsJob& job, DatagramSocket& socket) {
    const PageBuffer buffer(65'536);
    job.start();
    for (;;) {
        const Result<std::size_t> size = co_await socket.receive_into(buffer.bytes());
        if (!size) {
            co_return std::unexpected(size.error());
        }
        if (!job.received(buffer.bytes().first(*size))) {
            co_return {};
        }
    }
}

/// Batches, and segments too.
Task<Result<void>> receive_batches(DatagramsJob& job, DatagramSocket& socket) {
    BatchToReceive batch(job.mode);
    job.start();
    for (;;) {
        const Result<std::size_t> count = co_await socket.receive_batch(batch.datagrams());
        if (!count) {
            co_return std::unexpected(count.error());
        }
        if (!batch.give(job, *count)) {
            co_return {};
        }
    }
}

/// One datagram in each call, or as many as the kernel cuts it into.
Task<Result<void>> send_one_by_one(DatagramsJob& job, DatagramSocket& socket) {
    BytesToSend room(job);
    job.start();
    for (;;) {
        const std::span<const std::byte> bytes = room.fill(job);
        if (bytes.empty()) {
            co_return {};
        }
        const auto sent = co_await socket.send(bytes, kNoDeadline, room.segment_size(bytes));
        if (!sent) {
            co_return std::unexpected(sent.error());
        }
    }
}

Task<Result<void>> send_batches(DatagramsJob& job, DatagramSocket& socket) {
    BatchToSend batch(job);
    job.start();
    for (;;) {
        const std::span<const Datagram> filled = batch.fill(job);
        if (filled.empty()) {
            co_return {};
        }
        const Result<std::size_t> sent = co_await socket.send_batch(filled);
        if (!sent) {
            co_return std::unexpected(sent.error());
        }
    }
}

Task<Result<void>> flow_of(DatagramsJob& job, DatagramSocket& socket) {
    if (job.is_sender) {
        return job.mode == DatagramMode::batched ? send_batches(job, socket)
                                                 : send_one_by_one(job, socket);
    }
    return job.mode == DatagramMode::single ? receive_one_by_one(job, socket)
                                            : receive_batches(job, socket);
}

}  // namespace

Result<void> berth_coroutine_datagrams(DatagramsJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    DatagramSocket socket = BERTH_TRY(DatagramSocket::adopt(loop, Descriptor(::dup(job.socket))));
    return block_on(loop, flow_of(job, socket));
}

namespace {

/// What was posted and has not been taken, in that order. Loop thread only.
class Mailbox {
public:
    explicit Mailbox(Loop& loop) noexcept : filled_(loop) {}

    void put(Posted& item) noexcept {
        item.next = nullptr;
        *end_ = &item;
        end_ = &item.next;
        filled_.set();
    }
    /// Null when there is none.
    Posted* take() noexcept {
        Posted* const item = first_;
        if (item == nullptr) {
            return nullptr;
        }
        first_ = item->next;
        if (first_ == nullptr) {
            end_ = &first_;
            filled_.reset();
        }
        return item;
    }
    auto wait() noexcept { return filled_.wait(); }

private:
    Posted* first_ = nullptr;
    Posted** end_ = &first_;
    Event filled_;
};

Task<Result<void>> take_all(WakeJob& job, Mailbox& mailbox) {
    for (;;) {
        const Result<void> woken = co_await mailbox.wait();
        if (!woken) {
            co_return woken;
        }
        while (Posted* const item = mailbox.take()) {
            if (!job.arrived(*item)) {
                co_return {};
            }
        }
    }
}

}  // namespace

Result<void> berth_coroutine_wake(WakeJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    Mailbox mailbox(loop);
    PostedItems items(loop, job, [&mailbox](Posted& item) { mailbox.put(item); });
    job.start(items.post, &items);
    const Result<void> run = block_on(loop, take_all(job, mailbox));
    job.join();
    return run;
}

}  // namespace berth::bench
