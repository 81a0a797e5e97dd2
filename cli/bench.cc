// SPDX-License-Identifier: Apache-2.0
#include "cli/bench.h"

#include "cli/bench_reporter.h"
#include "cli/interrupt.h"
#include "cli/output/summary.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <ctime>
#include <iostream>

namespace berth::cli {
namespace {

using bench::Environment;

std::string now_utc() {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

unsigned usable_cpu_count() {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    return ::sched_getaffinity(0, sizeof(cpus), &cpus) == 0
               ? static_cast<unsigned>(CPU_COUNT(&cpus))
               : 1U;
}

HostFacts describe_host(const Environment& environment, std::uint64_t seed) {
    return {.kernel = bench::kernel_release(),
            .cpus = usable_cpu_count(),
            .port_range = fmt::format("{}-{}", environment.range.first, environment.range.last),
            .version = BERTH_VERSION,
            .seed = seed,
            .started = now_utc(),
            .isolation = std::string(to_string(environment.isolation))};
}

std::unique_ptr<ReportWriter> make_writer(Format format, std::ostream& out, HostFacts host) {
    switch (format) {
        case Format::json:
            return make_json_writer(out, std::move(host));
        case Format::csv:
            return make_csv_writer(out, std::move(host));
        case Format::ndjson:
            return make_ndjson_writer(out, host);
        case Format::text:
            break;
    }
    const Terminal terminal = &out == &std::cout ? Terminal::of(STDOUT_FILENO) : Terminal{};
    return make_text_writer(out, terminal, std::move(host));
}

ExitCode exit_code_of(const Error& error) {
    switch (error.code()) {
        case Errc::invalid_argument:
            return ExitCode::usage;
        case Errc::unsupported:
        case Errc::permission_denied:
            return ExitCode::unsupported;
        default:
            return ExitCode::failed;
    }
}

/// The workloads of a request, with the selection as each of them understands it.
struct Task {
    const BenchEntry* bench;
    bench::Selection selection;
};

/// What one bench of the headline can do with a selection that was made for all: nothing, when it
/// knows none of the named allocators or protocols, or compares no programs and some were named.
std::optional<bench::Selection> narrow(bench::Selection selection, const BenchEntry& bench) {
    const auto keep = [](auto& wanted, const auto& known) {
        const bool was_named = !wanted.empty();
        std::erase_if(wanted, [&](const auto& item) {
            return std::ranges::find(known, item) == std::ranges::end(known);
        });
        return !was_named || !wanted.empty();
    };
    const bool has_allocator = keep(selection.allocators, bench.allocators());
    const bool has_protocol = bench.protocols.empty() || keep(selection.protocols, bench.protocols);
    const bool names_programs = !selection.programs.empty() || !selection.engines.empty();
    const bool has_program = !names_programs || (knows_option(bench, "program") &&
                                                 keep(selection.programs, bench.programs()));
    return has_allocator && has_protocol && has_program ? std::optional(std::move(selection))
                                                        : std::nullopt;
}

std::vector<Task> tasks_of(const BenchRequest& request) {
    if (request.bench != nullptr) {
        return {{request.bench, request.selection}};
    }
    std::vector<Task> tasks;
    for (const BenchEntry& entry : bench_catalogue()) {
        if (auto selection = narrow(request.selection, entry)) {
            tasks.push_back({&entry, std::move(*selection)});
        }
    }
    return tasks;
}

/// Runs all tasks; one that fails does not stop the others. The worst of what happened.
ExitCode run_tasks(const std::vector<Task>& tasks, const Environment& environment,
                   BenchReporter& reporter, std::ostream& err) {
    ExitCode code = ExitCode::ok;
    for (std::size_t i = 0; i < tasks.size() && !reporter.is_interrupted(); ++i) {
        reporter.start_bench(tasks[i].bench->name, i, tasks.size());
        const Result<void> done = tasks[i].bench->run(tasks[i].selection, environment, reporter);
        reporter.end_bench();
        if (!done) {
            err << fmt::format("berth: {}\n", done.error().message());
            const ExitCode failure = exit_code_of(done.error());
            const bool others_stand = failure == ExitCode::unsupported && tasks.size() > 1;
            code = others_stand ? std::max(code, ExitCode::partial) : failure;
        }
    }
    return code;
}

void announce(const BenchRequest& request, const Environment& environment,
              BenchReporter& reporter) {
    if (environment.note.empty()) {
        return;
    }
    if (environment.isolation != bench::Isolation::host) {
        reporter.note(environment.note, false);
        return;
    }
    const bench::Selection& selection = request.selection;
    const bool is_default_length = !selection.seconds && !selection.repeats;
    const std::string_view longest =
        request.bench != nullptr ? request.bench->longest : "3 minutes";
    reporter.note(fmt::format("{}, for {}", environment.note,
                              is_default_length ? fmt::format("{} at most", longest)
                                                : "as long as --seconds and --repeats ask"),
                  false);
}

}  // namespace

ExitCode run_bench(const BenchRequest& request, std::ostream& out, std::ostream& err) {
    watch_interrupts();
    const Result<Environment> environment = bench::make_environment(request.where);
    if (!environment) {
        err << "berth: " << environment.error().message() << '\n';
        return exit_code_of(environment.error());
    }
    const auto writer =
        make_writer(request.format, out, describe_host(*environment, request.selection.seed));
    const Terminal terminal = &err == &std::cerr ? Terminal::of(STDERR_FILENO) : Terminal{};
    BenchReporter reporter(*writer, err, terminal);
    announce(request, *environment, reporter);
    const ExitCode code = run_tasks(tasks_of(request), *environment, reporter, err);
    const bool is_partial = reporter.is_partial() || code != ExitCode::ok;
    if (reporter.rows().empty() && code != ExitCode::ok) {
        return code;
    }
    writer->finish({summarize(reporter.rows()), reporter.notes(), is_partial});
    if (reporter.is_interrupted()) {
        err << "berth: bench: interrupted, the result is not complete\n";
    }
    return code == ExitCode::ok && is_partial ? ExitCode::partial : code;
}

}  // namespace berth::cli
