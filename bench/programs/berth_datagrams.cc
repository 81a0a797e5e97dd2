// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/berth_jobs.h"

#include "bench/harness/page_buffer.h"

#include <berth/datagram_socket.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace berth::bench {
namespace {

constexpr std::size_t kSegmentedSize = 64 * 1024;
constexpr std::size_t kMostSegments = 64;

/// What a datagram with `segment_size` holds, one by one. False when the last has come.
bool take_segments(DatagramsJob& job, std::span<const std::byte> bytes, std::size_t segment_size) {
    if (segment_size == 0) {
        return job.received(bytes);
    }
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), segment_size))) {
        if (!job.received(bytes.first(std::min(bytes.size(), segment_size)))) {
            return false;
        }
    }
    return true;
}

class SingleReceiver final : private ReceiveOperation {
public:
    SingleReceiver(DatagramsJob& job, DatagramSocket& socket)
        : ReceiveOperation(&SingleReceiver::received), job_(job), socket_(socket), buffer_(65'536) {
        always_completes = true;
    }
    void start() { socket_.receive(*this, buffer_.bytes()); }

private:
    static void received(Operation& operation) noexcept {
        auto& self = static_cast<SingleReceiver&>(operation);
        if (!self.has_failed() && self.job_.received(self.buffer_.bytes().first(self.count()))) {
            self.start();
        }
    }

    DatagramsJob& job_;
    DatagramSocket& socket_;
    PageBuffer buffer_;
};

/// Batches, and segments too.
class BatchReceiver final : private ReceiveBatchOperation {
public:
    BatchReceiver(DatagramsJob& job, DatagramSocket& socket, std::size_t count, std::size_t size)
        : ReceiveBatchOperation(&BatchReceiver::received),
          job_(job),
          socket_(socket),
          memory_(count * size),
          batch_(count) {
        always_completes = true;
        for (std::size_t i = 0; i < count; ++i) {
            batch_[i].buffer = memory_.bytes().subspan(i * size, size);
        }
    }
    void start() { socket_.receive(*this, batch_); }

private:
    static void received(Operation& operation) noexcept {
        auto& self = static_cast<BatchReceiver&>(operation);
        for (const Datagram& datagram : std::span(self.batch_).first(self.count())) {
            if (!take_segments(self.job_, datagram.buffer.first(datagram.size),
                               datagram.segment_size)) {
                return;
            }
        }
        if (!self.has_failed()) {
            self.start();
        }
    }

    DatagramsJob& job_;
    DatagramSocket& socket_;
    PageBuffer memory_;
    std::vector<Datagram> batch_;
};

class SingleSender final : private SendToOperation {
public:
    SingleSender(DatagramsJob& job, DatagramSocket& socket)
        : SendToOperation(&SingleSender::sent), job_(job), socket_(socket) {
        buffer_.resize(job.datagram_size * kMostSegments);
    }

    // Results that are there at once are taken here; the loop is for the others.
    void run() noexcept {
        while (fill()) {
            const std::span<const std::byte> bytes(buffer_.data(), filled_);
            segment_size = job_.mode == DatagramMode::segmented && filled_ > job_.datagram_size
                               ? static_cast<std::uint16_t>(job_.datagram_size)
                               : std::uint16_t{0};
            if (socket_.send(*this, bytes) == Start::pending) {
                return;
            }
        }
    }

private:
    static void sent(Operation& operation) noexcept { static_cast<SingleSender&>(operation).run(); }
    bool fill() noexcept {
        const std::size_t most = job_.mode == DatagramMode::segmented ? segments() : 1;
        std::size_t count = 0;
        while (count < most && job_.fill(buffer_.data() + count * job_.datagram_size)) {
            ++count;
        }
        filled_ = count * job_.datagram_size;
        return count > 0;
    }
    std::size_t segments() const noexcept {
        return std::min(kMostSegments, std::size_t{65'000} / job_.datagram_size);
    }

    DatagramsJob& job_;
    DatagramSocket& socket_;
    std::vector<std::byte> buffer_;
    std::size_t filled_ = 0;
};

class BatchSender final : private SendBatchOperation {
public:
    BatchSender(DatagramsJob& job, DatagramSocket& socket)
        : SendBatchOperation(&BatchSender::sent_all),
          job_(job),
          socket_(socket),
          memory_(kDatagramBatch * job.datagram_size),
          batch_(kDatagramBatch) {
        for (std::size_t i = 0; i < kDatagramBatch; ++i) {
            batch_[i].buffer = std::span(memory_).subspan(i * job.datagram_size, job.datagram_size);
        }
    }

    void run() noexcept {
        for (;;) {
            std::size_t count = 0;
            while (count < kDatagramBatch && job_.fill(batch_[count].buffer.data())) {
                ++count;
            }
            if (count == 0 || socket_.send(*this, std::span<const Datagram>(batch_).first(count)) ==
                                  Start::pending) {
                return;
            }
        }
    }

private:
    static void sent_all(Operation& operation) noexcept {
        static_cast<BatchSender&>(operation).run();
    }

    DatagramsJob& job_;
    DatagramSocket& socket_;
    std::vector<std::byte> memory_;
    std::vector<Datagram> batch_;
};

template <class Flow>
Result<void> run_flow(DatagramsJob& job, Loop& loop, Flow& flow) {
    job.start();
    if constexpr (requires { flow.run(); }) {
        flow.run();
    } else {
        flow.start();
    }
    return loop.run();
}

Result<void> send_datagrams(DatagramsJob& job, Loop& loop, DatagramSocket& socket) {
    if (job.mode == DatagramMode::batched) {
        BatchSender sender(job, socket);
        return run_flow(job, loop, sender);
    }
    SingleSender sender(job, socket);
    return run_flow(job, loop, sender);
}

Result<void> receive_datagrams(DatagramsJob& job, Loop& loop, DatagramSocket& socket) {
    if (job.mode == DatagramMode::single) {
        SingleReceiver receiver(job, socket);
        return run_flow(job, loop, receiver);
    }
    const bool is_segmented = job.mode == DatagramMode::segmented;
    BatchReceiver receiver(job, socket, is_segmented ? 8 : kDatagramBatch,
                           is_segmented ? kSegmentedSize : 2048);
    return run_flow(job, loop, receiver);
}

}  // namespace

Result<void> berth_datagrams(DatagramsJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    DatagramSocket socket = BERTH_TRY(DatagramSocket::adopt(loop, Descriptor(::dup(job.socket))));
    return job.is_sender ? send_datagrams(job, loop, socket) : receive_datagrams(job, loop, socket);
}

}  // namespace berth::bench
