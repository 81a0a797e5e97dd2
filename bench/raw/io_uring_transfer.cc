// SPDX-License-Identifier: Apache-2.0
// Multishot receives into a few large buffers, which stay in the cache because they come back at
// once.
#include "bench/raw/io_uring_jobs.h"
#include "bench/raw/ring.h"
#include "bench/raw/sockets.h"

#include <unistd.h>

#include <optional>

namespace berth::bench::raw {
namespace {

constexpr std::uint16_t kGroup = 0;
constexpr unsigned kBuffers = 16;

class TransferClient {
public:
    TransferClient(TransferJob& job, Ring ring, BufferRing buffers)
        : job_(job),
          buffers_(std::move(buffers)),
          ring_(std::move(ring)),
          open_count_(job.sockets.size()) {}

    Result<void> run() {
        job_.start();
        for (unsigned stream = 0; stream < job_.sockets.size(); ++stream) {
            receive(stream);
        }
        while (open_count_ > 0 && !failure_) {
            BERTH_TRY(ring_.submit_and_wait());
            ring_.for_each_completion(
                [this](const io_uring_cqe& completion) { settle(completion); });
            buffers_.publish();
            for (const unsigned stream : ended_receives_) {
                receive(stream);
            }
            ended_receives_.clear();
        }
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

private:
    void receive(unsigned stream) {
        prepare_receive(ring_.next(), job_.sockets[stream], kGroup, stream);
    }

    void settle(const io_uring_cqe& completion) {
        const auto stream = static_cast<unsigned>(completion.user_data);
        if (completion.res > 0) {
            const unsigned id = BufferRing::id_of(completion);
            job_.received(stream, {buffers_.data(id), static_cast<std::size_t>(completion.res)});
            buffers_.give_back(id);
        } else if (completion.res != -ENOBUFS) {
            if (completion.res < 0) {
                failure_ = Error::from_errno(-completion.res, "receive");
            }
            ::close(job_.sockets[stream]);
            --open_count_;
            return;
        }
        if (!has_more(completion)) {
            ended_receives_.push_back(stream);
        }
    }

    TransferJob& job_;
    BufferRing buffers_;
    Ring ring_;                             // goes before the memory that it may still write to
    std::vector<unsigned> ended_receives_;  // streams
    std::size_t open_count_;
    std::optional<Error> failure_;
};

}  // namespace

Result<void> io_uring_transfer(TransferJob& job) {
    Ring ring = BERTH_TRY(Ring::open(1'024, 16'384));
    BufferRing buffers = BERTH_TRY(BufferRing::open(ring, kBuffers, job.buffer.size(), kGroup));
    return TransferClient(job, std::move(ring), std::move(buffers)).run();
}

}  // namespace berth::bench::raw
