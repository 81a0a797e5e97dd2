// SPDX-License-Identifier: Apache-2.0
// Receiving: one receive after the other, or a multishot one into provided buffers. Sending: a
// batch of silent sends in each system call, or of segmented ones.
#include "bench/raw/datagram_calls.h"
#include "bench/raw/io_uring_jobs.h"
#include "bench/raw/ring.h"
#include "bench/raw/sockets.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>

namespace berth::bench::raw {
namespace {

constexpr std::uint16_t kGroup = 0;
constexpr unsigned kSmallBuffers = 1'024;
constexpr std::size_t kSmallSize = 2'048;
constexpr unsigned kLargeBuffers = 16;
// 64 KiB of data behind what a multishot recvmsg puts in front.
constexpr std::size_t kLargeSize = std::size_t{17} * 4'096;
constexpr std::size_t kSegmentedSendsAtOnce = 4;

Result<void> receive_single(DatagramsJob& job, Ring& ring) {
    const PageBuffer buffer(65'536);
    job.start();
    for (bool has_ended = false; !has_ended;) {
        ::io_uring_prep_recv(ring.next(), job.socket, buffer.bytes().data(), buffer.bytes().size(),
                             0);
        BERTH_TRY(ring.submit_and_wait());
        ring.for_each_completion([&](const io_uring_cqe& completion) {
            if (completion.res >= 0) {
                has_ended =
                    !job.received(buffer.bytes().first(static_cast<std::size_t>(completion.res)));
            }
        });
    }
    return {};
}

/// Multishot, also with the control messages of UDP_GRO.
class MultishotReceiver {
public:
    MultishotReceiver(DatagramsJob& job, Ring& ring, BufferRing buffers)
        : job_(job), ring_(ring), buffers_(std::move(buffers)) {
        message_.msg_controllen = CMSG_SPACE(sizeof(int));
    }

    Result<void> run() {
        job_.start();
        receive();
        while (!has_ended_) {
            BERTH_TRY(ring_.submit_and_wait());
            bool has_stopped = false;
            ring_.for_each_completion([&](const io_uring_cqe& completion) {
                settle(completion);
                has_stopped = has_stopped || !has_more(completion);
            });
            buffers_.publish();
            if (has_stopped) {
                receive();
            }
        }
        return {};
    }

private:
    void receive() {
        io_uring_sqe* const submission = ring_.next();
        if (job_.mode != DatagramMode::segmented) {
            prepare_receive(submission, job_.socket, kGroup, 0);
            return;
        }
        ::io_uring_prep_recvmsg_multishot(submission, job_.socket, &message_, 0);
        submission->flags = static_cast<std::uint8_t>(submission->flags | IOSQE_BUFFER_SELECT);
        submission->buf_group = kGroup;
    }

    void settle(const io_uring_cqe& completion) {
        if ((completion.flags & IORING_CQE_F_BUFFER) == 0) {
            return;
        }
        const unsigned id = BufferRing::id_of(completion);
        if (!has_ended_ && completion.res >= 0) {
            has_ended_ = !deliver(buffers_.data(id), completion.res);
        }
        buffers_.give_back(id);
    }

    bool deliver(std::byte* data, int size) {
        if (job_.mode != DatagramMode::segmented) {
            return job_.received({data, static_cast<std::size_t>(size)});
        }
        io_uring_recvmsg_out* const out = ::io_uring_recvmsg_validate(data, size, &message_);
        if (out == nullptr) {
            job_.is_intact = false;
            return true;
        }
        const auto* const payload =
            static_cast<const std::byte*>(::io_uring_recvmsg_payload(out, &message_));
        const std::size_t payload_size = ::io_uring_recvmsg_payload_length(out, size, &message_);
        msghdr received{};
        received.msg_control = data + sizeof(*out);
        received.msg_controllen = out->controllen;
        return deliver_segments(job_, {payload, payload_size},
                                segment_size(received, payload_size));
    }

    DatagramsJob& job_;
    Ring& ring_;
    BufferRing buffers_;
    msghdr message_{};
    bool has_ended_ = false;
};

/// One send at a time, or a batch of them, in one system call.
class DatagramBatchSender {
public:
    DatagramBatchSender(DatagramsJob& job, Ring& ring)
        : job_(job),
          ring_(ring),
          per_send_(job.mode == DatagramMode::segmented ? segments_per_send(job.datagram_size) : 1),
          send_count_(job.mode == DatagramMode::single      ? 1
                      : job.mode == DatagramMode::segmented ? kSegmentedSendsAtOnce
                                                            : kDatagramBatch),
          buffer_(send_count_ * per_send_ * job.datagram_size) {}

    Result<void> run() {
        job_.start();
        while (prepare_batch() > 0) {
            BERTH_TRY(ring_.submit_and_look());
            ring_.for_each_completion([this](const io_uring_cqe& completion) {
                // It was refused for want of room, which a system call can wait for.
                send_rest(job_.socket, pieces_[static_cast<std::size_t>(completion.user_data)]);
            });
        }
        return {};
    }

private:
    std::size_t prepare_batch() {
        pieces_.clear();
        std::byte* next = buffer_.bytes().data();
        for (std::size_t i = 0; i < send_count_; ++i) {
            std::size_t filled = 0;
            while (filled < per_send_ && job_.fill(next + filled * job_.datagram_size)) {
                ++filled;
            }
            if (filled == 0) {
                break;
            }
            pieces_.emplace_back(next, filled * job_.datagram_size);
            prepare_silent_send(ring_.next(), job_.socket, next, filled * job_.datagram_size, i);
            next += filled * job_.datagram_size;
        }
        return pieces_.size();
    }

    DatagramsJob& job_;
    Ring& ring_;
    std::size_t per_send_;
    std::size_t send_count_;
    PageBuffer buffer_;
    std::vector<std::span<const std::byte>> pieces_;
};

}  // namespace

Result<void> io_uring_datagrams(DatagramsJob& job) {
    Ring ring = BERTH_TRY(Ring::open(256, 8'192));
    if (job.is_sender) {
        return DatagramBatchSender(job, ring).run();
    }
    if (job.mode == DatagramMode::single) {
        return receive_single(job, ring);
    }
    const bool is_segmented = job.mode == DatagramMode::segmented;
    BufferRing buffers =
        BERTH_TRY(BufferRing::open(ring, is_segmented ? kLargeBuffers : kSmallBuffers,
                                   is_segmented ? kLargeSize : kSmallSize, kGroup));
    return MultishotReceiver(job, ring, std::move(buffers)).run();
}

}  // namespace berth::bench::raw
