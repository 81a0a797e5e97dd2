// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/bpf/cgroup.h"

#include "src/base/process.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace berth::internal::bpf {
namespace {

namespace fs = std::filesystem;

constexpr int kRemoveAttempts =
    100;  // A process leaves its cgroup a moment after it is waited for.
constexpr int kMaxDepth = 64;
constexpr std::time_t kLongestEmptySeconds = 600;

Result<void> write_text(const std::string& path, std::string_view text) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.is_open() || ::write(file.get(), text.data(), text.size()) < 0) {
        return std::unexpected(Error::from_errno(errno, "move into cgroup", path));
    }
    return {};
}

Error make_failure(int system_errno, const std::string& path) {
    constexpr const char* kMake = "make cgroup";
    if (system_errno == EROFS) {
        return Error(Errc::permission_denied, kMake, cgroup_mount().value_or(path), EROFS,
                     "cgroup2 is mounted read-only there",
                     "remount it: 'mount -o remount,rw' with that path");
    }
    const bool is_refused = system_errno == EACCES || system_errno == EPERM;
    return Error::from_errno(
        system_errno, kMake, path,
        is_refused ? "this needs root, or a cgroup that is delegated" : nullptr);
}

std::string procs_of(const std::string& cgroup) { return cgroup + "/cgroup.procs"; }

Result<bool> visit_tree(const fs::path& cgroup, int depth,
                        const std::function<bool(pid_t)>& visit) {
    std::ifstream procs(cgroup / "cgroup.procs");
    if (!procs) {
        return std::unexpected(
            Error::from_errno(errno != 0 ? errno : ENOENT, "read cgroup", cgroup.string()));
    }
    // 0 stands for processes of other pid namespaces.
    for (pid_t pid = 0; procs >> pid;) {
        if (pid > 0 && !visit(pid)) {
            return false;
        }
    }
    std::error_code error;
    for (fs::directory_iterator at(cgroup, error), end; !error && at != end; at.increment(error)) {
        if (!at->is_directory(error) || depth == kMaxDepth) continue;
        // A child may be gone meanwhile.
        const Result<bool> goes_on = visit_tree(at->path(), depth + 1, visit);
        if (goes_on && !*goes_on) {
            return false;
        }
    }
    return true;
}

void move_processes(const std::string& from, const std::string& to) {
    (void)for_each_process(from, [&to](pid_t pid) {
        (void)write_text(procs_of(to), std::to_string(pid));
        return true;
    });
}

void remove_cgroup(const std::string& path) {
    const std::string parent = fs::path(path).parent_path().string();
    for (int attempt = 0; attempt < kRemoveAttempts; ++attempt) {
        if (::rmdir(path.c_str()) == 0 || errno != EBUSY) {
            return;
        }
        move_processes(path, parent);
        ::poll(nullptr, 0, 10);
    }
}

constexpr std::string_view kCommonPrefix = "berth-run.";

// A cgroup's name is this and "PROCESS.NUMBER". Whether a process of another pid namespace lives
// cannot be told, so its cgroups have another prefix.
std::string name_prefix() {
    return std::string(kCommonPrefix) + std::to_string(own_pid_namespace()) + "-";
}

bool is_abandoned(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) {
        return false;
    }
    name.remove_prefix(prefix.size());
    std::uint64_t word = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), word);
    return failure == std::errc{} && end != name.data() + name.size() && *end == '.' &&
           !is_alive(ProcessIdentity::unpack(word));
}

// Whoever makes a cgroup enters it soon. The time is never before the making.
bool is_old(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 &&
           ::time(nullptr) - status.st_mtime > kLongestEmptySeconds;
}

void remove_abandoned(const std::string& parent) {
    const std::string prefix = name_prefix();
    std::error_code error;
    for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        const std::string path = at->path().string();
        if (is_abandoned(name, prefix)) {
            remove_cgroup(path);
        } else if (name.starts_with(kCommonPrefix) && !name.starts_with(prefix) && is_old(path)) {
            ::rmdir(path.c_str());  // EBUSY when there is a process in it
        }
    }
}

}  // namespace

Result<std::string> cgroup_mount() {
    // 31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        const std::size_t dash = line.find(" - cgroup2 ");
        if (dash == std::string::npos) continue;
        std::size_t begin = 0;
        for (int field = 0; field < 4; ++field) begin = line.find(' ', begin) + 1;
        return line.substr(begin, line.find(' ', begin) - begin);
    }
    return std::unexpected(Error(Errc::unsupported, "find cgroups", "/proc/self/mountinfo", 0,
                                 "no cgroup2 file system is mounted",
                                 "mount it: 'mount -t cgroup2 none /sys/fs/cgroup'"));
}

Result<std::string> own_cgroup() {
    const std::string mount = BERTH_TRY(cgroup_mount());
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("0::")) {
            const std::string path = line.substr(3);
            return path == "/" ? mount : mount + path;
        }
    }
    return std::unexpected(Error(Errc::unsupported, "find cgroups", "/proc/self/cgroup", 0,
                                 "this process is in no version 2 cgroup"));
}

Result<Descriptor> open_cgroup(const std::string& path) {
    Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.is_open()) {
        const int saved_errno = errno;
        if (saved_errno == ENOENT) {
            return std::unexpected(Error(Errc::invalid_argument, "open cgroup", path, saved_errno,
                                         "there is no such cgroup",
                                         "see 'systemd-cgls', or 'cat /proc/PID/cgroup'"));
        }
        return std::unexpected(Error::from_errno(saved_errno, "open cgroup", path));
    }
    struct statfs system{};
    if (::fstatfs(directory.get(), &system) != 0 || system.f_type != CGROUP2_SUPER_MAGIC) {
        return std::unexpected(Error(Errc::invalid_argument, "open cgroup", path, 0,
                                     "this is no directory of a cgroup2 file system"));
    }
    return directory;
}

Result<void> for_each_process(const std::string& cgroup, const std::function<bool(pid_t)>& visit) {
    BERTH_TRY(visit_tree(cgroup, 0, visit));
    return {};
}

Result<ChildCgroup> ChildCgroup::create() {
    const std::string parent = BERTH_TRY(own_cgroup());
    remove_abandoned(parent);
    static std::atomic<unsigned> made_count{0};
    const std::string path = parent + "/" + name_prefix() + std::to_string(own_process_word()) +
                             "." + std::to_string(++made_count);
    if (::mkdir(path.c_str(), 0755) != 0) {
        return std::unexpected(make_failure(errno, path));
    }
    return ChildCgroup(path);
}

ChildCgroup::~ChildCgroup() {
    if (!path_.empty()) {
        remove_cgroup(path_);
    }
}

Result<void> ChildCgroup::enter(pid_t pid) const {
    return write_text(procs_of(path_), std::to_string(pid));
}

}  // namespace berth::internal::bpf
