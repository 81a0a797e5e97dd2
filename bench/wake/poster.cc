// SPDX-License-Identifier: Apache-2.0
#include "bench/wake/poster.h"

#include "bench/harness/statistics.h"

#include <time.h>

namespace berth::bench {
namespace {

void sleep_ns(std::uint64_t duration_ns) noexcept {
    const timespec pause = {0, static_cast<long>(duration_ns)};
    ::nanosleep(&pause, nullptr);
}

}  // namespace

Poster::Poster(const PostingPlan& plan) : plan_(plan), items_(plan.count) {
    // The loop's thread must not be the one that allocates.
    latencies_ns_.reserve(plan.count);
    post_ns_.reserve(plan.count);
}

Poster::~Poster() {
    if (thread_.joinable()) {
        thread_.join();
    }
}

WakeJob Poster::job() {
    return {.count = plan_.count,
            .start =
                [this](WakeJob::Post post, void* loop) {
                    thread_ = std::thread([this, post, loop] {
                        pin_to(plan_.cpu);
                        post_all(post, loop);
                    });
                },
            .arrived = [this](Posted& item) { return arrived(item); },
            .join = [this] { thread_.join(); }};
}

void Poster::post_all(WakeJob::Post post, void* loop) {
    start_ns_ = now_ns();
    for (std::uint64_t number = 0; number < items_.size(); ++number) {
        while (number - arrived_count_.load(std::memory_order_acquire) >= plan_.window) {
            std::this_thread::yield();
        }
        if (plan_.pause_ns > 0) {
            sleep_ns(plan_.pause_ns);
        }
        Posted& item = items_[number];
        item.number = number;
        item.posted_ns = plan_.pause_ns > 0 ? now_ns() : 0;
        post(loop, item);
        if (plan_.pause_ns > 0) {
            post_ns_.push_back(now_ns() - item.posted_ns);
        }
    }
}

bool Poster::arrived(const Posted& item) {
    const std::uint64_t count = arrived_count_.load(std::memory_order_relaxed);
    is_intact_ = is_intact_ && item.number == count;
    if (plan_.pause_ns > 0) {
        latencies_ns_.push_back(now_ns() - item.posted_ns);
    }
    const bool is_last = count + 1 == plan_.count;
    if (is_last) {
        end_ns_ = now_ns();
    }
    arrived_count_.store(count + 1, std::memory_order_release);
    return !is_last;
}

}  // namespace berth::bench
