// SPDX-License-Identifier: Apache-2.0
#pragma once

// One-way flows: of datagrams, and of posts from another thread.

#include "bench/raw/datagram_calls.h"
#include "bench/raw/poller.h"
#include "bench/raw/post_queue.h"

#include <utility>

namespace berth::bench::raw {

template <class Poller>
Result<void> receive_datagrams(DatagramsJob& job, Poller poller) {
    DatagramReceiver receiver(job);
    BERTH_TRY(poller.add(job.socket, 0, Interest::read));
    job.start();
    Result<void> drained;
    while (drained && !receiver.has_ended()) {
        BERTH_TRY(poller.wait([&](const Ready&) { drained = receiver.drain(); }));
    }
    return drained;
}

template <class Poller>
Result<void> send_datagrams(DatagramsJob& job, Poller poller) {
    DatagramSender sender(job);
    job.start();
    bool is_watched = false;
    while (!BERTH_TRY(sender.send_until_full())) {
        if (!std::exchange(is_watched, true)) {
            BERTH_TRY(poller.add(job.socket, 0, Interest::write));
        }
        BERTH_TRY(poller.wait([](const Ready&) {}));
    }
    return {};
}

template <class Poller>
Result<void> run_wake(WakeJob& job, Poller poller) {
    PostQueue queue = BERTH_TRY(PostQueue::open());
    BERTH_TRY(poller.add_wakeup(queue.descriptor()));
    job.start(PostQueue::post, &queue);
    bool is_last = false;
    while (!is_last) {
        for (Posted* item = queue.take_all(); item != nullptr;) {
            Posted* const next = item->next;
            is_last = !job.arrived(*item) || is_last;
            item = next;
        }
        if (!is_last && queue.prepare_to_sleep()) {
            BERTH_TRY(poller.wait([&](const Ready&) {
                if constexpr (Poller::kMustReadWakeup) {
                    queue.clear_wakeup();
                }
            }));
            queue.woke_up();
        }
    }
    job.join();
    return {};
}

}  // namespace berth::bench::raw
