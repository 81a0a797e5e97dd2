// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/berth_jobs.h"
#include "bench/programs/datagram_rooms.h"

#include <berth/datagram_socket.h>

namespace berth::bench {
namespace {

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
    BatchReceiver(DatagramsJob& job, DatagramSocket& socket)
        : ReceiveBatchOperation(&BatchReceiver::received),
          job_(job),
          socket_(socket),
          batch_(job.mode) {
        always_completes = true;
    }
    void start() { socket_.receive(*this, batch_.datagrams()); }

private:
    static void received(Operation& operation) noexcept {
        auto& self = static_cast<BatchReceiver&>(operation);
        if (self.batch_.give(self.job_, self.count()) && !self.has_failed()) {
            self.start();
        }
    }

    DatagramsJob& job_;
    DatagramSocket& socket_;
    BatchToReceive batch_;
};

class SingleSender final : private SendToOperation {
public:
    SingleSender(DatagramsJob& job, DatagramSocket& socket)
        : SendToOperation(&SingleSender::sent), job_(job), socket_(socket), room_(job) {}

    // Results that are there at once are taken here; the loop is for the others.
    void start() noexcept {
        for (;;) {
            const std::span<const std::byte> bytes = room_.fill(job_);
            segment_size = room_.segment_size(bytes);
            if (bytes.empty() || socket_.send(*this, bytes) == Start::pending) {
                return;
            }
        }
    }

private:
    static void sent(Operation& operation) noexcept {
        static_cast<SingleSender&>(operation).start();
    }

    DatagramsJob& job_;
    DatagramSocket& socket_;
    BytesToSend room_;
};

class BatchSender final : private SendBatchOperation {
public:
    BatchSender(DatagramsJob& job, DatagramSocket& socket)
        : SendBatchOperation(&BatchSender::sent_all), job_(job), socket_(socket), batch_(job) {}

    void start() noexcept {
        for (;;) {
            const std::span<const Datagram> filled = batch_.fill(job_);
            if (filled.empty() || socket_.send(*this, filled) == Start::pending) {
                return;
            }
        }
    }

private:
    static void sent_all(Operation& operation) noexcept {
        static_cast<BatchSender&>(operation).start();
    }

    DatagramsJob& job_;
    DatagramSocket& socket_;
    BatchToSend batch_;
};

template <class Flow>
Result<void> run_flow(DatagramsJob& job, Loop& loop, DatagramSocket& socket) {
    Flow flow(job, socket);
    job.start();
    flow.start();
    return loop.run();
}

}  // namespace

Result<void> berth_datagrams(DatagramsJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    DatagramSocket socket = BERTH_TRY(DatagramSocket::adopt(loop, Descriptor(::dup(job.socket))));
    if (job.is_sender) {
        return job.mode == DatagramMode::batched ? run_flow<BatchSender>(job, loop, socket)
                                                 : run_flow<SingleSender>(job, loop, socket);
    }
    return job.mode == DatagramMode::single ? run_flow<SingleReceiver>(job, loop, socket)
                                            : run_flow<BatchReceiver>(job, loop, socket);
}

}  // namespace berth::bench
