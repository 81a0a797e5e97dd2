// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/libev_loop.h"
#include "bench/peers/post_stack.h"
#include "bench/raw/datagram_calls.h"

namespace berth::bench::libev {
namespace {

// libev reports readiness and has no calls of its own for datagrams, so each mode is as good as the
// system calls that its user makes.
template <class Side>
class Flow {
public:
    Flow(DatagramsJob& job, Loop loop) : job_(job), loop_(std::move(loop)), side_(job) {}

    Result<void> run(int events) {
        job_.start();
        loop_.start(ready_, job_.socket, events, on_ready, this);
        return loop_.run();
    }

private:
    static void on_ready(struct ev_loop*, ev_io* watcher, int) noexcept {
        Flow& flow = *static_cast<Flow*>(watcher->data);
        const Result<bool> has_ended = proceed(flow.side_);
        if (!has_ended) {
            flow.loop_.fail(has_ended.error());
        } else if (*has_ended) {
            flow.loop_.stop();
        }
    }
    static Result<bool> proceed(raw::DatagramReceiver& receiver) {
        BERTH_TRY(receiver.drain());
        return receiver.has_ended();
    }
    static Result<bool> proceed(raw::DatagramSender& sender) { return sender.send_until_full(); }

    DatagramsJob& job_;
    Loop loop_;
    Side side_;
    ev_io ready_{};
};

class WakeLoop {
public:
    WakeLoop(WakeJob& job, Loop loop) : job_(job), loop_(std::move(loop)) {}

    Result<void> run() {
        ev_async_init(&posted_, on_posted);
        posted_.data = this;
        ::ev_async_start(loop_.get(), &posted_);
        job_.start(post, this);
        const Result<void> result = loop_.run();
        job_.join();
        return result;
    }

private:
    static void post(void* self, Posted& item) {
        auto& loop = *static_cast<WakeLoop*>(self);
        if (loop.stack_.push(item)) {
            ::ev_async_send(loop.loop_.get(), &loop.posted_);
        }
    }
    static void on_posted(struct ev_loop*, ev_async* watcher, int) noexcept {
        auto& loop = *static_cast<WakeLoop*>(watcher->data);
        if (!loop.stack_.deliver(loop.job_)) {
            loop.loop_.stop();
        }
    }

    WakeJob& job_;
    Loop loop_;
    PostStack stack_;
    ev_async posted_{};
};

}  // namespace

Result<void> datagrams(DatagramsJob& job, Loop loop) {
    return job.is_sender ? Flow<raw::DatagramSender>(job, std::move(loop)).run(EV_WRITE)
                         : Flow<raw::DatagramReceiver>(job, std::move(loop)).run(EV_READ);
}

Result<void> wake(WakeJob& job, Loop loop) { return WakeLoop(job, std::move(loop)).run(); }

}  // namespace berth::bench::libev
