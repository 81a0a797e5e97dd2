// SPDX-License-Identifier: Apache-2.0
#include "cli/run/run_bpf.h"

#include "cli/exit_code.h"
#include "cli/run/exit_codes.h"

#include <fmt/format.h>

#ifdef BERTH_HAS_BPF
#include "cli/run/supervisor.h"
#include "src/interpose/bpf/cover.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#endif

namespace berth::cli {
#ifdef BERTH_HAS_BPF
namespace {

using internal::bpf::Cover;
using internal::bpf::CoverOptions;

constexpr std::uint64_t kTickMs = 50;
constexpr std::uint64_t kLookIntervalMs = 1'000;
// A look costs at most this part of the time, also when ports run out all the while.
constexpr std::uint64_t kLookShare = 20;

int refuse(std::ostream& err, const Error& error) {
    err << fmt::format("berth run: {}\n", error.message());
    const bool is_missing =
        error.code() == Errc::unsupported || error.code() == Errc::permission_denied;
    return is_missing ? static_cast<int>(ExitCode::unsupported) : kOwnFailure;
}

CoverOptions cover_options_of(const RunRequest& request) {
    CoverOptions options{.excluded = request.excluded};
    if (request.range) options.range = *request.range;
    if (request.rest_period) {
        const auto rest_ms = static_cast<std::uint32_t>(request.rest_period->count());
        options.rests = {.brief_ms = rest_ms, .lengthy_ms = rest_ms};
    }
    return options;
}

std::vector<std::string> own_environment() {
    std::vector<std::string> environment;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        environment.emplace_back(*variable);
    }
    return environment;
}

ProgramEnd run_covered(Cover& cover, const std::string& path, const RunRequest& request) {
    std::atomic<std::uint32_t> never_woken{0};
    std::uint64_t looked_ms = internal::bpf::monotonic_ms();
    Supervisor supervisor(never_woken, [&](bool) {
        const std::uint64_t since = internal::bpf::monotonic_ms() - looked_ms;
        const std::uint64_t soon = cover.look_ms() * kLookShare;
        if (since >= kLookIntervalMs || (since >= soon && cover.is_asked())) {
            // What fails once is tried again; what fails for ever lets the tables expire.
            (void)cover.look();
            looked_ms = internal::bpf::monotonic_ms();
        }
        return kTickMs;
    });
    return supervisor.run({path, request.command, own_environment()});
}

std::string describe(const Cover& cover) {
    std::string text = "berth run:";
    for (const Protocol protocol : {Protocol::udp, Protocol::tcp}) {
        const berth_counters counters = cover.counters(protocol).value_or(berth_counters{});
        text += fmt::format(
            " {}: {} ports given, {} taken by number, {} refused, {} left to the "
            "kernel;",
            to_string(protocol), counters.given, counters.noted, counters.refused,
            counters.left_to_kernel);
    }
    text.pop_back();
    return text;
}

}  // namespace

int run_under_bpf(const std::string& path, const RunRequest& request, std::ostream& err) {
    ProgramEnd end;
    {
        Result<Cover> cover = Cover::create(cover_options_of(request));
        if (!cover) {
            return refuse(err, cover.error());
        }
        // The program inherits the cgroup; the end of `cover` moves this process back.
        if (const Result<void> entered = cover->enter(); !entered) {
            return refuse(err, entered.error());
        }
        end = run_covered(*cover, path, request);
        if (request.wants_stats && end.start_error == 0) {
            err << describe(*cover) << '\n';
        }
    }
    if (end.start_error != 0) {
        err << fmt::format("berth run: {}: {}\n", path, std::strerror(end.start_error));
        return exit_code_of_start(end.start_error);
    }
    err.flush();
    return end_like(end.wait_status);
}
#else
int run_under_bpf(const std::string&, const RunRequest&, std::ostream& err) {
    err << "berth run: this berth was built without BPF programs; install libbpf-dev, bpftool and "
           "clang-19, and build it again\n";
    return static_cast<int>(ExitCode::unsupported);
}
#endif

}  // namespace berth::cli
