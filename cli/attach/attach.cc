// SPDX-License-Identifier: Apache-2.0
#include "cli/attach/attach.h"

#include "cli/attach/attach_options.h"
#include "cli/interrupt.h"

#include <fmt/format.h>

#include <array>

#ifdef BERTH_HAS_BPF
#include "src/interpose/bpf/attachment.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#endif

namespace berth::cli {
namespace {

constexpr std::array kVerbs{
    AttachVerb{"attach", "Give berth's local ports to every program of a cgroup, or of the host"},
    AttachVerb{"detach", "Take back what 'berth attach' has attached"},
    AttachVerb{"agent", "Look after what 'berth attach' has attached, until it is detached"}};

#ifdef BERTH_HAS_BPF
using internal::bpf::AttachReport;
using internal::bpf::LookReport;

ExitCode fail(std::string_view verb, const Error& error, std::ostream& err) {
    err << fmt::format("berth {}: {}\n", verb, error.message());
    switch (error.code()) {
        case Errc::permission_denied:
        case Errc::unsupported:
            return ExitCode::unsupported;
        case Errc::invalid_argument:
            return ExitCode::usage;
        default:
            return ExitCode::failed;
    }
}

ExitCode run_agent_here(const std::string& pins, std::ostream& err) {
    watch_interrupts();
    const Result<void> outcome = internal::bpf::run_agent(pins, was_interrupted);
    return outcome ? ExitCode::ok : fail("agent", outcome.error(), err);
}

// In the background, without a terminal; ends by itself when somebody detaches.
bool start_agent(const std::string& pins, std::ostream& err) {
    const pid_t child = ::fork();
    if (child != 0) {
        return child > 0;
    }
    ::setsid();
    ::signal(SIGHUP, SIG_IGN);
    ::prctl(PR_SET_NAME, "berth-agent");
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (nowhere >= 0) ::dup2(nowhere, fd);
    }
    (void)!::chdir("/");
    ::_exit(static_cast<int>(run_agent_here(pins, err)));
}

void print(const AttachReport& report, std::ostream& out) {
    const LookReport& look = report.look;
    out << fmt::format("attached to {}: {} network namespace{}, {} port{} held by older sockets\n",
                       report.cgroup, look.namespace_count, look.namespace_count == 1 ? "" : "s",
                       look.sync.found, look.sync.found == 1 ? "" : "s");
    if (look.skipped_count > 0) {
        out << fmt::format(
            "{} network namespaces could not be entered: the kernel's own choice "
            "there (CAP_SYS_ADMIN?)\n",
            look.skipped_count);
    }
    for (const std::string& other : report.other_programs) {
        out << fmt::format("another program sees the same calls, before berth's: {}\n", other);
    }
}

ExitCode run_attach(const AttachRequest& request, const std::string& pins, std::ostream& out,
                    std::ostream& err) {
    const Result<AttachReport> report = internal::bpf::attach(
        request.cgroup, pins, {.range = request.range, .excluded = request.excluded});
    if (!report) {
        return fail("attach", report.error(), err);
    }
    print(*report, out);
    out.flush();
    if (request.starts_agent && !start_agent(pins, err)) {
        err << fmt::format("berth attach: no agent: {}; run 'berth agent' within 10 s\n",
                           std::strerror(errno));
        return ExitCode::partial;
    }
    return ExitCode::ok;
}

ExitCode dispatch(std::string_view verb, const AttachRequest& request, std::ostream& out,
                  std::ostream& err) {
    const std::string pins = request.pins.empty() ? internal::bpf::kDefaultPins : request.pins;
    if (verb == "attach") {
        return run_attach(request, pins, out, err);
    }
    if (verb == "agent") {
        return run_agent_here(pins, err);
    }
    const Result<void> outcome = internal::bpf::detach(pins);
    return outcome ? ExitCode::ok : fail("detach", outcome.error(), err);
}
#else
ExitCode dispatch(std::string_view verb, const AttachRequest&, std::ostream&, std::ostream& err) {
    err << fmt::format(
        "berth {}: this berth was built without BPF programs; install libbpf-dev, bpftool and "
        "clang-19, and build it again\n",
        verb);
    return ExitCode::unsupported;
}
#endif

}  // namespace

std::span<const AttachVerb> attach_verbs() { return kVerbs; }

ExitCode run_attach_verb(std::string_view verb, std::span<const char* const> arguments,
                         std::ostream& out, std::ostream& err) {
    std::string_view description;
    for (const AttachVerb& each : kVerbs) {
        if (each.name == verb) description = each.description;
    }
    const auto request = parse_attach_request(verb, description, arguments);
    if (!request) {
        err << request.error() << '\n';
        return ExitCode::usage;
    }
    if (!request->help.empty()) {
        out << request->help;
        return ExitCode::ok;
    }
    return dispatch(verb, *request, out, err);
}

}  // namespace berth::cli
