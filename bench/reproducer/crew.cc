// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/crew.h"

#include "bench/guest/guest.h"
#include "bench/harness/environment.h"
#include "bench/harness/process.h"
#include "bench/harness/statistics.h"
#include "bench/reproducer/worker.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace berth::bench {
namespace {

constexpr std::uint64_t kStopTimeoutNs = 10'000'000'000;

/// What one process of the crew runs.
struct Part {
    const Scenario& scenario;
    const Environment& environment;
    SharedArea& area;
    std::uint64_t seed;
    unsigned first_worker;
    unsigned worker_count;
};

void run_worker(const Part& part, unsigned index, PortTable* table) {
    const Scenario& scenario = part.scenario;
    if (scenario.is_spin()) {
        spin(part.area);
        return;
    }
    const Address local = bind_address(part.environment, scenario.family);
    KernelChoice kernel(local);
    std::optional<TableChoice> berth;
    if (table != nullptr) {
        berth.emplace(*table, local);
    }
    const WorkerOptions options{.protocol = scenario.protocol,
                                .family = scenario.family,
                                .range = part.environment.range,
                                .rate = scenario.rate,
                                .worker_count = scenario.workers,
                                .held_limit = scenario.is_paced() ? kHeldByWorker : 0,
                                .seed = part.seed};
    PortChoice& choice = berth ? static_cast<PortChoice&>(*berth) : kernel;
    ReproducerWorker worker(options, index, choice, part.area);
    if (const Result<void> done = worker.run(); !done) {
        part.area.fail(done.error());
    }
}

void run_threads(const Part& part, PortTable* table) {
    std::vector<std::jthread> threads;
    for (unsigned index = 1; index < part.worker_count; ++index) {
        threads.emplace_back(
            [&part, table, index] { run_worker(part, part.first_worker + index, table); });
    }
    run_worker(part, part.first_worker, table);
}

/// The table that this process of the crew works with; none for the kernel's choice.
Result<std::optional<PortTable>> make_table(const Scenario& scenario, int shared_table) {
    if (scenario.allocator == "berth") {
        return BERTH_TRY(PortTable::create(scenario.protocol));
    }
    if (scenario.allocator == "berth-shared") {
        Descriptor memory(::fcntl(shared_table, F_DUPFD_CLOEXEC, 0));
        TableOptions options;
        options.reconcile_at_start = false;  // the one who made the table has learned it all
        return BERTH_TRY(PortTable::attach(std::move(memory), scenario.protocol, options));
    }
    return std::optional<PortTable>();
}

[[noreturn]] void run_part(const Part& part, int shared_table) {
    Result<std::optional<PortTable>> table = make_table(part.scenario, shared_table);
    if (!table) {
        part.area.fail(table.error());
        ::_exit(1);
    }
    run_threads(part, *table ? &**table : nullptr);
    ::_exit(part.area.error() ? 1 : 0);
}

// What run_crew_guest() reads, in its order.
std::vector<std::string> words_of_guest(const Scenario& scenario, const Environment& environment,
                                        const SharedArea& area, std::uint64_t seed) {
    return {"reproducer",
            std::to_string(area.descriptor()),
            std::to_string(static_cast<unsigned>(scenario.protocol)),
            std::to_string(static_cast<unsigned>(scenario.family)),
            std::to_string(static_cast<unsigned>(scenario.mode)),
            std::to_string(scenario.workers),
            std::to_string(scenario.rate),
            std::to_string(static_cast<unsigned>(environment.isolation)),
            std::to_string(environment.range.first),
            std::to_string(environment.range.last),
            std::to_string(seed)};
}

}  // namespace

int run_crew_guest(const std::vector<std::string>& words) {
    constexpr std::size_t kWordCount = 10;
    if (words.size() != kWordCount) {
        return 2;
    }
    const auto number = [&](std::size_t index) { return std::stoull(words[index]); };
    const Scenario scenario{.protocol = static_cast<Protocol>(number(1)),
                            .family = static_cast<Family>(number(2)),
                            .allocator = "kernel",
                            .mode = static_cast<WorkerMode>(number(3)),
                            .workers = static_cast<unsigned>(number(4)),
                            .rate = std::stod(words[5])};
    Environment environment;
    environment.isolation = static_cast<Isolation>(number(6));
    environment.range = {static_cast<std::uint16_t>(number(7)),
                         static_cast<std::uint16_t>(number(8))};
    auto area = SharedArea::attach(static_cast<int>(number(0)), scenario.workers);
    if (!area) {
        return 1;
    }
    Crew crew(scenario, environment, *area, number(9));
    if (!crew.start()) {
        return 1;
    }
    while (area->phase() != Phase::stopping) {
        ::poll(nullptr, 0, 5);
        if (!crew.check() && area->phase() != Phase::stopping) return 1;
    }
    return crew.stop() ? 0 : 1;
}

Result<void> Crew::start() {
    if (is_guest(scenario_.allocator)) {
        return start_guest();
    }
    std::optional<PortTable> shared;
    if (scenario_.allocator == "berth-shared") {
        shared = BERTH_TRY(PortTable::create_shared(scenario_.protocol));
    }
    const int descriptor = shared ? shared->descriptor() : -1;
    if (scenario_.mode == WorkerMode::threads) {
        return start_process(0, scenario_.workers, descriptor);
    }
    for (unsigned index = 0; index < scenario_.workers; ++index) {
        BERTH_TRY(start_process(index, 1, descriptor));
    }
    return {};
}

Result<void> Crew::start_process(unsigned first, unsigned count, int shared_table) {
    const pid_t process = BERTH_TRY(fork_helper());
    if (process == 0) {
        run_part({.scenario = scenario_,
                  .environment = environment_,
                  .area = area_,
                  .seed = seed_,
                  .first_worker = first,
                  .worker_count = count},
                 shared_table);
    }
    processes_.push_back(process);
    return {};
}

/// The whole crew is one guest, whose workers are its threads or its children.
Result<void> Crew::start_guest() {
    const pid_t process = BERTH_TRY(fork_helper());
    if (process == 0) {
        ::fcntl(area_.descriptor(), F_SETFD, 0);
        exec_guest(scenario_.allocator, words_of_guest(scenario_, environment_, area_, seed_));
        ::_exit(127);
    }
    processes_.push_back(process);
    return {};
}

/// Takes note of the processes that have ended.
Result<void> Crew::reap() {
    bool was_killed = false;
    std::erase_if(processes_, [&](pid_t process) {
        int status = 0;
        rusage usage{};
        if (::wait4(process, &status, WNOHANG, &usage) != process) {
            return false;
        }
        peak_rss_kib_ = std::max<std::int64_t>(peak_rss_kib_, usage.ru_maxrss);
        was_killed = was_killed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        return true;
    });
    if (const auto error = area_.error()) {
        return std::unexpected(*error);
    }
    if (was_killed) {
        return std::unexpected(Error(Errc::interrupted, "bench reproducer", scenario_.allocator, 0,
                                     "a worker was killed", "see the kernel's log for the reason"));
    }
    return {};
}

Result<void> Crew::check() {
    const std::size_t count = processes_.size();
    BERTH_TRY(reap());
    if (processes_.size() != count) {
        return std::unexpected(Error(Errc::interrupted, "bench reproducer", scenario_.allocator, 0,
                                     "a worker ended before its time"));
    }
    return {};
}

Result<void> Crew::stop() {
    area_.set_phase(Phase::stopping);
    const std::uint64_t deadline = now_ns() + kStopTimeoutNs;
    while (!processes_.empty() && now_ns() < deadline) {
        BERTH_TRY(reap());
        ::poll(nullptr, 0, 1);
    }
    kill_all();
    return {};
}

void Crew::kill_all() noexcept {
    // All at once: they close their sockets side by side, not one after the other.
    for (const pid_t process : processes_) {
        ::kill(process, SIGKILL);
    }
    for (const pid_t process : processes_) {
        end_helper(process);
    }
    processes_.clear();
}

}  // namespace berth::bench
