// SPDX-License-Identifier: Apache-2.0
// A multishot poll on the eventfd, which is never read.
#include "bench/raw/io_uring_jobs.h"
#include "bench/raw/post_queue.h"
#include "bench/raw/ring.h"

#include <sys/epoll.h>

namespace berth::bench::raw {
namespace {

void watch(Ring& ring, const PostQueue& queue) {
    io_uring_sqe* const submission = ring.next();
    ::io_uring_prep_poll_multishot(submission, queue.descriptor(), EPOLLIN | EPOLLET);
}

}  // namespace

Result<void> io_uring_wake(WakeJob& job) {
    Ring ring = BERTH_TRY(Ring::open(8, 64));
    PostQueue queue = BERTH_TRY(PostQueue::open());
    watch(ring, queue);
    BERTH_TRY(ring.submit());
    job.start(PostQueue::post, &queue);
    bool is_last = false;
    while (!is_last) {
        for (Posted* item = queue.take_all(); item != nullptr;) {
            Posted* const next = item->next;
            is_last = !job.arrived(*item) || is_last;
            item = next;
        }
        if (!is_last && queue.prepare_to_sleep()) {
            BERTH_TRY(ring.submit_and_wait());
            ring.for_each_completion([&](const io_uring_cqe& completion) {
                if (!has_more(completion)) {
                    watch(ring, queue);
                }
            });
            queue.woke_up();
        }
    }
    job.join();
    return {};
}

}  // namespace berth::bench::raw
