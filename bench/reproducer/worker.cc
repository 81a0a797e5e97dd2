// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/worker.h"

#include "bench/harness/statistics.h"
#include "bench/reproducer/pacing.h"

#include <algorithm>
#include <ctime>

#include <sched.h>

namespace berth::bench {
namespace {

bool is_no_port(const Error& error) {
    return error.code() == Errc::ports_exhausted || error.code() == Errc::port_in_use;
}

bool is_no_socket(const Error& error) {
    return error.code() == Errc::descriptors_exhausted || error.code() == Errc::out_of_memory;
}

}  // namespace

ReproducerWorker::ReproducerWorker(const WorkerOptions& options, unsigned index, PortChoice& choice,
                                   const SharedArea& area)
    : options_(options),
      index_(index),
      choice_(choice),
      area_(area),
      counters_(area.workers()[index]),
      random_(options.seed + index),
      held_(options.range) {}

Result<void> ReproducerWorker::run() {
    const bool is_paced = options_.rate > 0;
    Pacing pacing(now_ns(), is_paced ? options_.rate : 1, index_, options_.worker_count);
    while (!must_stop()) {
        if (is_paced) {
            wait_until(pacing.due_ns());
            if (now_ns() < pacing.due_ns()) {
                continue;
            }
            pacing.advance(now_ns());
        }
        BERTH_TRY(turn());
        counters_.held.store(held_.size(), std::memory_order_relaxed);
    }
    return {};
}

/// Not beyond 20 ms, so that the end of the run is noticed.
void ReproducerWorker::wait_until(std::uint64_t due_ns) const noexcept {
    constexpr std::uint64_t kStepNs = 20'000'000;
    const std::uint64_t until = std::min(due_ns, now_ns() + kStepNs);
    const timespec time = {.tv_sec = static_cast<time_t>(until / 1'000'000'000),
                           .tv_nsec = static_cast<long>(until % 1'000'000'000)};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
}

void ReproducerWorker::count(std::atomic<std::uint64_t>& counter) const noexcept {
    if (area_.phase() == Phase::measuring) {
        counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
}

Result<void> ReproducerWorker::turn() {
    if (options_.held_limit != 0 && held_.size() >= options_.held_limit) {
        held_.remove_at(0);
    }
    Result<Socket> socket = Socket::open(options_.protocol, options_.family);
    if (!socket) {
        if (!is_no_socket(socket.error())) {
            return std::unexpected(socket.error());
        }
        count(counters_.without_socket);
        close_one();
        return {};
    }
    HeldSocket held{.port = {}, .socket = std::move(*socket)};
    const std::uint64_t start = now_ns();
    const Result<void> bound = choice_.bind(held);
    const std::uint64_t duration = now_ns() - start;
    if (!bound && !is_no_port(bound.error())) {
        return bound;
    }
    if (area_.phase() == Phase::measuring) {
        counters_.times.add(duration);
    }
    count(bound ? counters_.succeeded : counters_.failed);
    if (!bound) {
        close_one();
        return {};
    }
    return keep(std::move(held));
}

Result<void> ReproducerWorker::keep(HeldSocket held) {
    const std::uint16_t port = BERTH_TRY(choice_.port_of(held));
    if (!options_.range.contains(port) || held_.has(port)) {
        return std::unexpected(Error(Errc::system, "bind", "port " + std::to_string(port), 0,
                                     "a port outside the range, or one that is held already"));
    }
    held_.add(port, std::move(held));
    held_.remove(static_cast<std::uint16_t>(port + 1));
    held_.remove(static_cast<std::uint16_t>(port - 1));
    return {};
}

void ReproducerWorker::close_one() {
    if (held_.size() == 0) {
        ::sched_yield();  // the others have them all
        return;
    }
    held_.remove_at(random_() % held_.size());
}

void spin(const SharedArea& area) noexcept {
    std::uint64_t work = 0;
    while (area.phase() != Phase::stopping) {
        for (unsigned step = 0; step < 10'000; ++step) {
            asm volatile("" : "+r"(work));
            ++work;
        }
    }
}

}  // namespace berth::bench
