// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/libevent_base.h"
#include "bench/peers/post_stack.h"
#include "bench/raw/datagram_calls.h"

namespace berth::bench::libevent {
namespace {

// libevent reports readiness and has no calls of its own for datagrams, so each mode is as good as
// the system calls that its user makes.
template <class Side>
class Flow {
public:
    Flow(DatagramsJob& job, Base base) : job_(job), base_(std::move(base)), side_(job) {}

    Result<void> run(int what) {
        job_.start();
        BERTH_TRY(base_.add(ready_, job_.socket, what | EV_PERSIST, on_ready, this));
        return base_.run();
    }

private:
    static void on_ready(evutil_socket_t, short, void* self) noexcept {
        Flow& flow = *static_cast<Flow*>(self);
        const Result<bool> has_ended = proceed(flow.side_);
        if (!has_ended) {
            flow.base_.fail(has_ended.error());
        } else if (*has_ended) {
            flow.base_.stop();
        }
    }
    static Result<bool> proceed(raw::DatagramReceiver& receiver) {
        BERTH_TRY(receiver.drain());
        return receiver.has_ended();
    }
    static Result<bool> proceed(raw::DatagramSender& sender) { return sender.send_until_full(); }

    DatagramsJob& job_;
    Base base_;
    Side side_;
    event ready_{};
};

class WakeLoop {
public:
    WakeLoop(WakeJob& job, Base base) : job_(job), base_(std::move(base)) {}

    Result<void> run() {
        // An event of no descriptor: it is never added, it happens when it is activated.
        ::event_assign(&posted_, base_.get(), -1, 0, on_posted, this);
        job_.start(post, this);
        const Result<void> result = base_.run(EVLOOP_NO_EXIT_ON_EMPTY);
        job_.join();
        return result;
    }

private:
    static void post(void* self, Posted& item) {
        auto& loop = *static_cast<WakeLoop*>(self);
        if (loop.stack_.push(item)) {
            ::event_active(&loop.posted_, EV_READ, 0);
        }
    }
    static void on_posted(evutil_socket_t, short, void* self) noexcept {
        auto& loop = *static_cast<WakeLoop*>(self);
        if (!loop.stack_.deliver(loop.job_)) {
            loop.base_.stop();
        }
    }

    WakeJob& job_;
    Base base_;
    PostStack stack_;
    event posted_{};
};

}  // namespace

Result<void> datagrams(DatagramsJob& job, Base base) {
    return job.is_sender ? Flow<raw::DatagramSender>(job, std::move(base)).run(EV_WRITE)
                         : Flow<raw::DatagramReceiver>(job, std::move(base)).run(EV_READ);
}

Result<void> wake(WakeJob& job, Base base) { return WakeLoop(job, std::move(base)).run(); }

}  // namespace berth::bench::libevent
