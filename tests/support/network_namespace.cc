// SPDX-License-Identifier: Apache-2.0
#include "tests/support/network_namespace.h"

#include <berth/descriptor.h>

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>

// A test program that has had threads may fork here and start threads in the child; the
// ThreadSanitizer refuses that unless told otherwise.
#if defined(__SANITIZE_THREAD__)
#define BERTH_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BERTH_THREAD_SANITIZER 1
#endif
#endif
#ifdef BERTH_THREAD_SANITIZER
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

// In a program with the LeakSanitizer only; it runs at exit(), and the child leaves by _exit().
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((weak)) int __lsan_do_recoverable_leak_check();

namespace berth::test {
namespace {

constexpr uid_t kNobody = 65534;

// How the child ends; anything else is a crash. 66 and above belong to the sanitizers.
enum ExitCode : std::uint8_t {
    passed = 0,
    failed = 1,
    skipped = 2,
    not_allowed = 3,
    not_set_up = 4,
    leaked = 5
};

// What the set-up could not do.
struct Obstacle {
    std::string text;
    bool is_refusal;  // This host does not allow it; otherwise the test asks for nonsense.
};
using Trouble = std::optional<Obstacle>;

Obstacle with_errno(const std::string& what) {
    const int saved_errno = errno;
    const bool is_refusal = saved_errno == EPERM || saved_errno == EACCES || saved_errno == EROFS;
    return {what + ": " + std::strerror(saved_errno), is_refusal};
}

Trouble write_file(const std::string& path, std::string_view text) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.is_open()) {
        return with_errno("open " + path);
    }
    // A sysctl list takes a page at a time and says how much of it that was.
    while (!text.empty()) {
        const ssize_t size = ::write(file.get(), text.data(), text.size());
        if (size <= 0) {
            return with_errno("write '" + std::string(text.substr(0, 40)) + "' to " + path);
        }
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return std::nullopt;
}

Trouble make_namespace() {
    if (::unshare(CLONE_NEWNET) == 0) {
        return std::nullopt;
    }
    const std::string uid = std::to_string(::geteuid());
    const std::string gid = std::to_string(::getegid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        // Also EINVAL with threads, ENOSPC at max_user_namespaces, ENOSYS: always the host's say.
        return Obstacle{with_errno("make a user and a network namespace").text, true};
    }
    if (const Trouble trouble = write_file("/proc/self/setgroups", "deny")) {
        return trouble;
    }
    if (const Trouble trouble = write_file("/proc/self/uid_map", "0 " + uid + " 1")) {
        return trouble;
    }
    return write_file("/proc/self/gid_map", "0 " + gid + " 1");
}

Trouble raise_loopback() {
    const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    if (!socket.is_open() || ::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) {
        return with_errno("look at lo");
    }
    request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
    if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) {
        return with_errno("raise lo");
    }
    return std::nullopt;
}

// The kernel refuses a range that begins below the first unprivileged port.
Trouble set_ports(const NamespaceOptions& options) {
    const std::string ipv4 = "/proc/sys/net/ipv4/";
    const std::string first = std::to_string(options.range.first);
    if (options.range.first < 1024) {
        if (Trouble trouble = write_file(ipv4 + "ip_unprivileged_port_start", first)) {
            return trouble;
        }
    }
    const std::string range = first + " " + std::to_string(options.range.last);
    if (Trouble trouble = write_file(ipv4 + "ip_local_port_range", range)) {
        return trouble;
    }
    return write_file(ipv4 + "ip_local_reserved_ports", options.reserved);
}

Trouble disable_ipv6() {
    if (::access("/proc/sys/net/ipv6", F_OK) != 0) {
        return std::nullopt;
    }
    if (Trouble trouble = write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")) {
        return trouble;
    }
    return write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
}

Trouble limit_descriptors(unsigned limit) {
    rlimit current{};
    ::getrlimit(RLIMIT_NOFILE, &current);
    const rlimit wanted{limit, std::max<rlim_t>(limit, current.rlim_max)};
    if (::setrlimit(RLIMIT_NOFILE, &wanted) != 0) {
        return with_errno("set the limit of open files to " + std::to_string(limit));
    }
    return std::nullopt;
}

// In a user namespace of our own only uid 0 exists; there the capabilities alone go.
Trouble drop_privileges() {
    const bool is_mapped = ::setgroups(0, nullptr) == 0 &&
                           ::setresgid(kNobody, kNobody, kNobody) == 0 &&
                           ::setresuid(kNobody, kNobody, kNobody) == 0;
    if (!is_mapped && errno != EPERM && errno != EINVAL) {
        return with_errno("become uid 65534");
    }
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
    if (::syscall(SYS_capset, &header, none.data()) != 0) {
        return with_errno("drop all capabilities");
    }
    return std::nullopt;
}

Trouble set_up(const NamespaceOptions& options) {
    Trouble trouble = make_namespace();
    if (!trouble) {
        trouble = raise_loopback();
    }
    if (!trouble) {
        trouble = set_ports(options);
    }
    if (!trouble && options.disable_ipv6) {
        trouble = disable_ipv6();
    }
    if (!trouble && options.descriptor_limit != 0) {
        trouble = limit_descriptors(options.descriptor_limit);
    }
    if (!trouble && options.drop_privileges) {
        trouble = drop_privileges();
    }
    // Last, because a change of credentials clears it.
    if (!trouble && ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        trouble = with_errno("set the parent-death signal");
    }
    return trouble;
}

const testing::TestResult& current_result() {
    return *testing::UnitTest::GetInstance()->current_test_info()->result();
}

std::string skip_reason() {
    for (int i = 0; i < current_result().total_part_count(); ++i) {
        if (current_result().GetTestPartResult(i).skipped()) {
            return current_result().GetTestPartResult(i).message();
        }
    }
    return {};
}

bool has_failed_since(int part_count) {
    for (int i = part_count; i < current_result().total_part_count(); ++i) {
        if (current_result().GetTestPartResult(i).failed()) {
            return true;
        }
    }
    return false;
}

void tell(int pipe, const std::string& text) {
    [[maybe_unused]] const ssize_t size = ::write(pipe, text.data(), text.size());
}

// The leak check traces this process by way of /proc; a process that has changed its credentials
// does not allow that, and a body may have hidden /proc.
bool has_leaked(const NamespaceOptions& options) {
    const bool can_check = __lsan_do_recoverable_leak_check != nullptr &&
                           !options.drop_privileges && ::access("/proc/self/task", R_OK) == 0;
    return can_check && __lsan_do_recoverable_leak_check() != 0;
}

ExitCode run_child(const NamespaceOptions& options, const std::function<void()>& body, int pipe) {
    if (const Trouble trouble = set_up(options)) {
        tell(pipe, trouble->text);
        return trouble->is_refusal ? not_allowed : not_set_up;
    }
    const int part_count = current_result().total_part_count();
    // An exception that left this frame would go on with the parent's other tests, in the child.
    try {
        body();
    } catch (const std::exception& exception) {
        ADD_FAILURE() << "the body has thrown: " << exception.what();
    } catch (...) {
        ADD_FAILURE() << "the body has thrown something that is no std::exception";
    }
    if (has_failed_since(part_count)) {
        return failed;
    }
    if (testing::Test::IsSkipped()) {
        tell(pipe, skip_reason());
        return skipped;
    }
    return has_leaked(options) ? leaked : passed;
}

[[noreturn]] void be_child(const NamespaceOptions& options, const std::function<void()>& body,
                           int pipe, pid_t parent) {
    // The group lets the parent end what the body may leave behind.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
        ::_exit(not_set_up);
    }
    const ExitCode code = run_child(options, body, pipe);
    std::fflush(nullptr);
    ::_exit(code);
}

bool wait_until_ended(pid_t child, unsigned timeout_seconds) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::seconds(timeout_seconds);
    const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd event{.fd = handle.get(), .events = POLLIN, .revents = 0};
        const int ready = ::poll(&event, 1, static_cast<int>(std::max<long>(left.count(), 0)));
        if (ready > 0) {
            return true;
        }
        if (ready == 0 || errno != EINTR) {
            return false;
        }
    }
}

// Ends the child's whole group before the child is reaped: until then its number is not reused.
int end_and_reap(pid_t child) {
    ::kill(child, SIGKILL);
    ::kill(-child, SIGKILL);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

std::string read_message(int pipe) {
    std::array<char, 4096> text{};
    const ssize_t size = ::read(pipe, text.data(), text.size());
    return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : std::string();
}

void report(int status, const std::string& message) {
    if (WIFSIGNALED(status)) {
        FAIL() << "the test's child was ended by signal " << WTERMSIG(status) << " ("
               << strsignal(WTERMSIG(status)) << ")";
    }
    switch (WEXITSTATUS(status)) {
        case passed:
            return;
        case failed:
            FAIL() << "failed in its network namespace, see above";
        case skipped:
            GTEST_SKIP() << message;
        case not_allowed:
            GTEST_SKIP() << "this host does not allow it: " << message;
        case not_set_up:
            FAIL() << "cannot set the network namespace up as wanted: " << message;
        case leaked:
            FAIL() << "memory leaked in the network namespace, see above";
        default:
            FAIL() << "the test's child ended with exit code " << WEXITSTATUS(status);
    }
}

}  // namespace

void in_network_namespace(const NamespaceOptions& options, const std::function<void()>& body) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0) << std::strerror(errno);
    const Descriptor reader(ends[0]);
    Descriptor writer(ends[1]);
    // What is buffered would be printed twice.
    std::fflush(nullptr);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0) << std::strerror(errno);
    if (child == 0) {
        be_child(options, body, writer.get(), parent);
    }
    writer.reset();
    const bool has_ended = wait_until_ended(child, options.timeout_seconds);
    const int status = end_and_reap(child);
    if (!has_ended) {
        FAIL() << "took longer than " << options.timeout_seconds << " s in its network namespace";
    }
    report(status, read_message(reader.get()));
}

}  // namespace berth::test
