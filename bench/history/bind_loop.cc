// SPDX-License-Identifier: Apache-2.0
#include "bench/history/bind_loop.h"

#include "bench/harness/statistics.h"
#include "bench/reproducer/held.h"

#include <memory>
#include <thread>

namespace berth::bench {
namespace {

struct Phase {
    std::atomic<bool> is_measuring{false};
    std::atomic<bool> is_stopped{false};
};

class Worker {
public:
    Worker(PortModel& model, const Phase& phase)
        : model_(model), phase_(phase), held_(model.range()) {}
    ~Worker() {
        while (held_.size() != 0) {
            model_.close(held_.remove_at(held_.size() - 1));
        }
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void hold(ModelSocket* socket) {
        held_.add(socket->port.load(std::memory_order_relaxed), socket);
    }

    void run() {
        const ModelThread thread(model_);
        Search search{.random = internal::thread_random(), .is_stopped = phase_.is_stopped};
        while (!search.must_stop()) {
            bind_one(search);
        }
    }

    void add_to(LoopResult& result) const {
        result.succeeded += succeeded_;
        result.failed += failed_;
        result.unfinished += unfinished_;
        result.times.merge(times_);
    }

private:
    void bind_one(Search& search) {
        ModelSocket* socket = model_.open();
        const std::uint64_t start = now_ns();
        const bool is_bound = model_.bind(*socket, search);
        const bool is_cut_off = !is_bound && search.must_stop();
        if (phase_.is_measuring.load(std::memory_order_relaxed)) {
            times_.add(now_ns() - start);
            (is_bound ? succeeded_ : is_cut_off ? unfinished_ : failed_) += 1;
        }
        if (is_bound) {
            keep(socket);
            return;
        }
        model_.close(socket);
        if (held_.size() != 0) {
            const auto count = static_cast<std::uint32_t>(held_.size());
            model_.close(held_.remove_at(search.random.below(count)));
        }
    }

    void keep(ModelSocket* socket) {
        const std::uint16_t port = socket->port.load(std::memory_order_relaxed);
        held_.add(port, socket);
        for (const int neighbour : {port + 1, port - 1}) {
            if (const auto beside = held_.remove(static_cast<std::uint16_t>(neighbour))) {
                model_.close(*beside);
            }
        }
    }

    PortModel& model_;
    const Phase& phase_;
    Held<ModelSocket*> held_;
    std::uint64_t succeeded_ = 0;
    std::uint64_t failed_ = 0;
    std::uint64_t unfinished_ = 0;
    LatencyHistogram times_;
};

}  // namespace

void run_bind_loop(PortModel& model, const std::vector<ModelSocket*>& sockets,
                   const LoopOptions& options, LoopResult& result) {
    Phase phase;
    std::vector<std::unique_ptr<Worker>> workers;
    for (unsigned index = 0; index < options.threads; ++index) {
        workers.push_back(std::make_unique<Worker>(model, phase));
    }
    for (ModelSocket* socket : sockets) {
        workers[internal::thread_random().below(options.threads)]->hold(socket);
    }
    {
        std::vector<std::jthread> threads;
        for (const auto& worker : workers) {
            threads.emplace_back([&worker] { worker->run(); });
        }
        std::this_thread::sleep_for(options.warm_up);
        const std::uint64_t start = now_ns();
        phase.is_measuring = true;
        std::this_thread::sleep_for(options.duration);
        phase.is_stopped = true;
        result.seconds += static_cast<double>(now_ns() - start) / 1e9;
    }
    for (const auto& worker : workers) {
        worker->add_to(result);
    }
}

}  // namespace berth::bench
