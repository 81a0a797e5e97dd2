// SPDX-License-Identifier: Apache-2.0
#include "cli/run/run.h"

#include "cli/exit_code.h"
#include "cli/run/exit_codes.h"
#include "cli/run/program_file.h"
#include "cli/run/run_bpf.h"
#include "cli/run/run_files.h"
#include "cli/run/run_log.h"
#include "cli/run/run_request.h"
#include "cli/run/supervisor.h"
#include "cli/run/table_keeper.h"

#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace berth::cli {
namespace {

constexpr std::uint64_t kLogIntervalMs = 50;
constexpr const char* kPreloadVariable = "LD_PRELOAD";

int refuse(std::ostream& err, int status, const std::string& message) {
    err << message << '\n';
    return status;
}

int status_of(const Error& error) {
    switch (error.code()) {
        case Errc::invalid_argument:
            return static_cast<int>(ExitCode::usage);
        case Errc::unsupported:
        case Errc::permission_denied:
            return static_cast<int>(ExitCode::unsupported);
        default:
            return kOwnFailure;
    }
}

// Beside the command in the build directory, below the prefix where it is installed.
std::string find_preload_object() {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    for (const auto& candidate :
         {self / BERTH_PRELOAD_NAME, self / BERTH_PRELOAD_FROM_BIN / BERTH_PRELOAD_NAME}) {
        if (::access(candidate.c_str(), R_OK) == 0) {
            return std::filesystem::canonical(candidate, error).string();
        }
    }
    return {};
}

std::vector<std::string> environment_with(const std::string& object, const std::string& page) {
    const std::string preload_prefix = fmt::format("{}=", kPreloadVariable);
    const std::string run_prefix = fmt::format("{}=", internal::kRunVariable);
    std::vector<std::string> environment;
    std::string preload = preload_prefix + object;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        if (text.starts_with(preload_prefix)) {
            const std::string_view others = text.substr(preload_prefix.size());
            if (!others.empty()) preload += fmt::format(":{}", others);
        } else if (!text.starts_with(run_prefix)) {
            environment.emplace_back(text);
        }
    }
    environment.push_back(preload);
    environment.push_back(run_prefix + page);
    return environment;
}

/// A run on its way.
class Run {
public:
    Run(RunFiles files, RunLog log) : files_(std::move(files)), log_(std::move(log)) {}

    ProgramEnd start(const std::string& path, const RunRequest& request,
                     const std::string& object) {
        TableKeeper keeper(files_);
        Supervisor supervisor(files_.page().wake, [&](bool is_woken) {
            keeper.keep(is_woken);
            log_.drain(files_.page().events, false);
            return log_.is_open() ? std::min(keeper.idle_ms(), kLogIntervalMs) : keeper.idle_ms();
        });
        const ProgramEnd end =
            supervisor.run({path, request.command, environment_with(object, files_.page_path())});
        log_.drain(files_.page().events, true);
        return end;
    }

    void report(const RunRequest& request, std::ostream& err) {
        if (const std::string complaint = log_.complaint(files_.page().events);
            !complaint.empty()) {
            err << complaint << '\n';
        }
        if (request.wants_stats) {
            err << describe_statistics(files_.page().statistics,
                                       files_.table(Protocol::udp).range().size())
                << '\n';
        }
    }

private:
    RunFiles files_;
    RunLog log_;
};

int start_and_wait(const std::string& path, const RunRequest& request, std::ostream& err) {
    const std::string object = find_preload_object();
    if (object.empty() || object.find_first_of(" :") != std::string::npos) {
        return refuse(err, kOwnFailure,
                      object.empty() ? fmt::format("berth run: {} is missing beside the command",
                                                   BERTH_PRELOAD_NAME)
                                     : fmt::format("berth run: {}: a path with a space or colon "
                                                   "cannot be preloaded",
                                                   object));
    }
    remove_abandoned_files();
    auto files = RunFiles::make(request);
    if (!files) {
        return refuse(err, status_of(files.error()), "berth run: " + files.error().message());
    }
    auto log = RunLog::open(request.log_path);
    if (!log) {
        return refuse(err, kOwnFailure, "berth run: " + log.error().message());
    }
    ProgramEnd end;
    {
        Run run(std::move(*files), std::move(*log));
        end = run.start(path, request, object);
        if (end.start_error == 0) run.report(request, err);
    }
    if (end.start_error != 0) {
        return refuse(err, exit_code_of_start(end.start_error),
                      fmt::format("berth run: {}: {}", path, std::strerror(end.start_error)));
    }
    err.flush();
    return end_like(end.wait_status);
}

}  // namespace

int run_program(std::span<const char* const> arguments, std::ostream& out, std::ostream& err) {
    const auto request = make_run_request(arguments);
    if (!request) {
        return refuse(err, static_cast<int>(ExitCode::usage), request.error());
    }
    if (request->wants_help) {
        out << run_help();
        return static_cast<int>(ExitCode::ok);
    }
    const auto path = find_program(request->command.front());
    if (!path) {
        return refuse(err, path.error().exit_status, path.error().message);
    }
    if (request->uses_bpf) {
        return run_under_bpf(*path, *request, err);
    }
    if (const auto checked = check_enterable(examine_program(*path)); !checked) {
        return refuse(err, checked.error().exit_status, checked.error().message);
    }
    return start_and_wait(*path, *request, err);
}

}  // namespace berth::cli
