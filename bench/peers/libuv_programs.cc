// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/libuv_loop.h"
#include "bench/peers/post_stack.h"

namespace berth::bench::libuv {
namespace {

void close_if_open(uv_handle_t* handle, void*) noexcept {
    if (::uv_is_closing(handle) == 0) {
        ::uv_close(handle, nullptr);
    }
}

class WakeLoop {
public:
    WakeLoop(WakeJob& job, Loop loop) : job_(job), loop_(std::move(loop)) {}

    Result<void> run() {
        BERTH_TRY(check("make a uv_async_t", ::uv_async_init(loop_.get(), &posted_, on_posted)));
        posted_.data = this;
        job_.start(post, this);
        const Result<void> result = loop_.run();
        job_.join();
        return result;
    }

private:
    static void post(void* self, Posted& item) {
        auto& loop = *static_cast<WakeLoop*>(self);
        if (loop.stack_.push(item)) {
            ::uv_async_send(&loop.posted_);
        }
    }
    static void on_posted(uv_async_t* posted) noexcept {
        auto& loop = *static_cast<WakeLoop*>(posted->data);
        if (!loop.stack_.deliver(loop.job_)) {
            loop.loop_.stop();
        }
    }

    WakeJob& job_;
    PostStack stack_;
    uv_async_t posted_{};
    Loop loop_;  // last: its handles outlive it
};

}  // namespace

Result<Loop> Loop::open() {
    auto loop = std::make_unique<uv_loop_t>();
    BERTH_TRY(check("open a uv_loop_t", ::uv_loop_init(loop.get())));
    return Loop(loop.release());
}

Result<void> Loop::run() {
    ::uv_run(get(), UV_RUN_DEFAULT);
    return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
}

void Loop::Close::operator()(uv_loop_t* loop) const noexcept {
    ::uv_walk(loop, close_if_open, nullptr);
    ::uv_run(loop, UV_RUN_DEFAULT);
    ::uv_loop_close(loop);
    delete loop;
}

Result<void> wake(WakeJob& job) { return WakeLoop(job, BERTH_TRY(Loop::open())).run(); }

}  // namespace berth::bench::libuv

namespace berth::bench {

std::span<const Program> libuv_programs() {
    static const Program all[] = {{.program = "libuv",
                                   .engine = "epoll",
                                   .transfer = libuv::transfer,
                                   .echo = libuv::echo,
                                   .churn = libuv::churn,
                                   .datagrams = libuv::datagrams,
                                   .wake = libuv::wake,
                                   .probe = nullptr}};
    return all;
}

}  // namespace berth::bench
