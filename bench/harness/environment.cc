// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/environment.h"

#include "src/ports/namespace_settings.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <algorithm>
#include <optional>

namespace berth::bench {
namespace {

constexpr const char* kRangeFile = "/proc/sys/net/ipv4/ip_local_port_range";

Result<void> write_file(const char* path, const std::string& text) {
    const Descriptor file(::open(path, O_WRONLY | O_CLOEXEC));
    if (!file.is_open() || ::write(file.get(), text.data(), text.size()) < 0) {
        return std::unexpected(Error::from_errno(errno, "write", path));
    }
    return {};
}

// Listeners in the own namespace may queue as many connections as there are ports.
void allow_long_backlogs() {
    // Where it may not be changed, a server that is slow to accept delays a few connections.
    static_cast<void>(write_file("/proc/sys/net/core/somaxconn", "65535"));
}

Result<void> bring_loopback_up() {
    const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", "udp ipv4 socket"));
    }
    ifreq request{};
    std::memcpy(request.ifr_name, "lo", sizeof("lo"));
    request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
    if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) {
        return std::unexpected(Error::from_errno(errno, "bring up", "lo"));
    }
    return {};
}

Result<void> unshare_network(Isolation isolation) {
    const uid_t uid = ::getuid();
    const gid_t gid = ::getgid();
    const bool needs_user_namespace = isolation == Isolation::user_network_namespace;
    const int flags = needs_user_namespace ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET;
    if (::unshare(flags) != 0) {
        return std::unexpected(Error::from_errno(errno, "make", "a network namespace"));
    }
    if (needs_user_namespace) {
        BERTH_TRY(write_file("/proc/self/setgroups", "deny"));
        BERTH_TRY(write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1"));
        BERTH_TRY(write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1"));
    }
    allow_long_backlogs();
    return bring_loopback_up();
}

/// A namespace that can be made but not used (a security module may allow the first and refuse the
/// second) must not be entered: there is no way back. So a child tries it.
bool can_use(Isolation isolation) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(unshare_network(isolation) ? 0 : 1);
    }
    int status = 1;
    return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

Isolation choose_isolation(NamespaceChoice choice) {
    if (choice == NamespaceChoice::host) {
        return Isolation::host;
    }
    for (const Isolation candidate :
         {Isolation::network_namespace, Isolation::user_network_namespace}) {
        if (can_use(candidate)) {
            return candidate;
        }
    }
    return Isolation::host;
}

unsigned raise_descriptor_limit() {
    constexpr rlim_t kWanted = 65'536;
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit higher = {std::max(limit.rlim_cur, kWanted), std::max(limit.rlim_max, kWanted)};
    if (::setrlimit(RLIMIT_NOFILE, &higher) != 0) {
        const rlimit up_to_hard = {limit.rlim_max, limit.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &up_to_hard);
    }
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<unsigned>(std::min<rlim_t>(limit.rlim_cur, 1U << 30));
}

/// The range for an own namespace: the usual one, or what the descriptors allow.
PortRange range_within(unsigned descriptor_limit) {
    const unsigned allowed =
        descriptor_limit > kSpareDescriptors ? descriptor_limit - kSpareDescriptors : 1;
    const unsigned count = std::min(kBenchRange.size(), allowed);
    return {kBenchRange.first, static_cast<std::uint16_t>(kBenchRange.first + count - 1)};
}

Result<void> set_port_range(PortRange range) {
    return write_file(kRangeFile, std::to_string(range.first) + " " + std::to_string(range.last));
}

bool can_use_ipv6() {
    const Descriptor socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const Address loopback = Address::loopback(Family::ipv6);
    return socket.is_open() && ::bind(socket.get(), loopback.data(), loopback.size()) == 0;
}

std::string describe_range(PortRange range) {
    return std::to_string(range.size()) + " ports (" + std::to_string(range.first) + "-" +
           std::to_string(range.last) + ")";
}

std::string host_note(const Environment& environment, NamespaceChoice choice) {
    const std::string reason = choice == NamespaceChoice::host
                                   ? "asked for with --namespace host"
                                   : "this user may not make a network namespace";
    return "no network namespace of its own: " + reason + "; takes up to " +
           std::to_string(usable_port_count(environment)) + " of the host's " +
           describe_range(environment.range) + ", on 127.0.0.1 and ::1 only";
}

/// Sets the range of the own namespace and notes where it is not the usual one.
Result<void> prepare_namespace(Environment& environment) {
    const PortRange wanted = range_within(environment.descriptor_limit);
    const Result<void> is_set = set_port_range(wanted);
    environment.range = BERTH_TRY(internal::read_namespace_settings()).range;
    if (!is_set) {
        environment.note =
            "ip_local_port_range cannot be set here: uses " + describe_range(environment.range);
    } else if (wanted != kBenchRange) {
        environment.note = "RLIMIT_NOFILE is " + std::to_string(environment.descriptor_limit) +
                           ": uses " + describe_range(wanted) + "; 'ulimit -n 20000' allows all " +
                           std::to_string(kBenchRange.size());
    }
    return {};
}

}  // namespace

Result<Environment> make_environment(NamespaceChoice choice) {
    Environment environment;
    environment.descriptor_limit = raise_descriptor_limit();
    environment.isolation = choose_isolation(choice);
    if (environment.isolation == Isolation::host) {
        environment.range = BERTH_TRY(internal::read_namespace_settings()).range;
        environment.note = host_note(environment, choice);
    } else {
        BERTH_TRY(unshare_network(environment.isolation));
        BERTH_TRY(prepare_namespace(environment));
    }
    environment.has_ipv6 = can_use_ipv6();
    return environment;
}

Result<void> enter_fresh_namespace(const Environment& environment) {
    if (environment.isolation == Isolation::host) {
        return {};
    }
    // The user namespace that was made first is still ours and may hold another network namespace.
    BERTH_TRY(unshare_network(Isolation::network_namespace));
    static_cast<void>(set_port_range(environment.range));
    return {};
}

unsigned usable_port_count(const Environment& environment) noexcept {
    const unsigned count = environment.range.size();
    const unsigned descriptors = environment.descriptor_limit > kSpareDescriptors
                                     ? environment.descriptor_limit - kSpareDescriptors
                                     : 1;
    const bool is_host = environment.isolation == Isolation::host;
    const double share = is_host ? kHostShare : 1.0;
    return std::min(static_cast<unsigned>(count * share), descriptors);
}

Address bind_address(const Environment& environment, Family family) noexcept {
    return environment.isolation == Isolation::host ? Address::loopback(family)
                                                    : Address::any(family);
}

std::string_view to_string(Isolation isolation) noexcept {
    switch (isolation) {
        case Isolation::network_namespace:
            return "network";
        case Isolation::user_network_namespace:
            return "user+network";
        case Isolation::host:
            break;
    }
    return "host";
}

std::string kernel_release() {
    utsname name{};
    ::uname(&name);
    return name.release;
}

bool kernel_is_at_least(unsigned major, unsigned minor) {
    unsigned found_major = 0;
    unsigned found_minor = 0;
    if (std::sscanf(kernel_release().c_str(), "%u.%u", &found_major, &found_minor) != 2) {
        return false;
    }
    return found_major > major || (found_major == major && found_minor >= minor);
}

bool has_local_port_range_option() {
    Result<Socket> socket = udp_socket(Family::ipv4);
    return socket && socket->set_local_port_range({40'000, 40'000}).has_value();
}

}  // namespace berth::bench
