// SPDX-License-Identifier: Apache-2.0
#pragma once

// The other thread of a WakeJob, and what it and the loop's thread observe.

#include "bench/harness/cpus.h"
#include "bench/programs/program.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace berth::bench {

struct PostingPlan {
    unsigned count = 0;
    /// Between two posts, so that the loop sleeps; 0: as fast as it can.
    std::uint64_t pause_ns = 0;
    /// At most so many under way.
    unsigned window = 1'024;
    int cpu = -1;
};

class Poster {
public:
    explicit Poster(const PostingPlan& plan);
    Poster(const Poster&) = delete;
    Poster& operator=(const Poster&) = delete;
    ~Poster();

    /// The job to give to a program. It refers to this.
    WakeJob job();

    /// Every item arrived, once and in order. After the job, as all that follows.
    bool is_intact() const noexcept { return is_intact_ && arrived_count_ == plan_.count; }
    /// From the first post to the last arrival.
    std::uint64_t elapsed_ns() const noexcept { return end_ns_ - start_ns_; }
    std::vector<std::uint64_t>& latencies_ns() noexcept { return latencies_ns_; }
    /// What a post takes the thread that posts.
    std::vector<std::uint64_t>& post_ns() noexcept { return post_ns_; }

private:
    void post_all(WakeJob::Post post, void* loop);
    bool arrived(const Posted& item);

    PostingPlan plan_;
    std::vector<Posted> items_;
    std::thread thread_;
    std::atomic<std::uint64_t> arrived_count_ = 0;
    bool is_intact_ = true;
    std::uint64_t start_ns_ = 0;
    std::uint64_t end_ns_ = 0;
    std::vector<std::uint64_t> latencies_ns_;
    std::vector<std::uint64_t> post_ns_;
};

}  // namespace berth::bench
