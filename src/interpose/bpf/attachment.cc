// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/bpf/attachment.h"

#include "src/interpose/bpf/cgroup.h"
#include "src/interpose/bpf/programs.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace berth::internal::bpf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNeedsRoot = "this needs root";
constexpr int kTickMs = 50;
constexpr std::uint64_t kLookIntervalMs = 1'000;
// A look costs at most this part of the time, also when ports run out all the while.
constexpr std::uint64_t kLookShare = 20;
constexpr std::uint64_t kSoonMs = 100;

bool is_bpf_file_system(const std::string& path) {
    struct statfs system{};
    return ::statfs(path.c_str(), &system) == 0 &&
           static_cast<unsigned long>(system.f_type) == BPF_FS_MAGIC;
}

Error pin_failure(int system_errno, const char* operation, const std::string& pins) {
    if (system_errno == EROFS) {
        return Error(Errc::permission_denied, operation, pins, EROFS,
                     "this bpf file system is mounted read-only",
                     "remount it: 'mount -o remount,rw /sys/fs/bpf'");
    }
    return Error::from_errno(system_errno, operation, pins, kNeedsRoot);
}

// /sys/fs/bpf is there for this alone; systemd mounts it, and so does bpftool.
Result<void> provide_file_system(const std::string& parent) {
    if (is_bpf_file_system(parent)) {
        return {};
    }
    if (parent == "/sys/fs/bpf" && ::mount("bpf", parent.c_str(), "bpf", 0, "mode=0700") == 0) {
        return {};
    }
    if (::geteuid() != 0) {
        return std::unexpected(Error(Errc::permission_denied, "attach", parent, EPERM, kNeedsRoot));
    }
    return std::unexpected(Error(Errc::unsupported, "attach", parent, 0,
                                 "this is no bpf file system",
                                 "mount it: 'mount -t bpf bpf /sys/fs/bpf'"));
}

// The kernel lets go of a link without a pin some time later; detached by name, it is gone at once.
void remove_pin(const std::string& path) {
    const Descriptor object(::bpf_obj_get(path.c_str()));
    if (object.is_open()) {
        ::bpf_link_detach(object.get());  // EINVAL for a map
    }
    ::unlink(path.c_str());
}

// All of it is links and maps: nothing lies deeper.
void remove_pins(const std::string& directory) {
    std::error_code error;
    std::vector<fs::path> pins;
    for (fs::directory_iterator at(directory, error), end; !error && at != end;
         at.increment(error)) {
        pins.push_back(at->path());
    }
    for (const fs::path& pin : pins) remove_pin(pin.string());
    ::rmdir(directory.c_str());
}

Result<Descriptor> open_directory(const std::string& pins) {
    Descriptor directory(::open(pins.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.is_open()) {
        if (errno == ENOENT) {
            return std::unexpected(Error(Errc::not_holder, "open", pins, errno,
                                         "nothing is attached", "see 'berth attach'"));
        }
        return std::unexpected(Error::from_errno(errno, "open", pins, kNeedsRoot));
    }
    return directory;
}

bool lock(const Descriptor& directory) { return ::flock(directory.get(), LOCK_EX | LOCK_NB) == 0; }

// An empty directory, locked.
Result<Descriptor> make_directory(const std::string& pins) {
    BERTH_TRY(provide_file_system(fs::path(pins).parent_path().string()));
    if (::access(pins.c_str(), F_OK) == 0) {
        const Descriptor left = BERTH_TRY(open_directory(pins));
        if (!lock(left)) {
            return std::unexpected(Error(Errc::port_in_use, "attach", pins, 0,
                                         "berth is attached there, and its agent is at work",
                                         "see 'berth detach'"));
        }
        remove_pins(pins);
    }
    if (::mkdir(pins.c_str(), 0700) != 0) {
        return std::unexpected(pin_failure(errno, "attach", pins));
    }
    Descriptor directory = BERTH_TRY(open_directory(pins));
    if (!lock(directory)) {
        return std::unexpected(
            Error(Errc::port_in_use, "attach", pins, 0, "another 'berth attach' is at work"));
    }
    return directory;
}

bool is_removed(const Descriptor& directory) {
    struct stat status{};
    return ::fstat(directory.get(), &status) != 0 || status.st_nlink == 0;
}

Result<AttachReport> attach_and_pin(const std::string& path, const std::string& pins,
                                    const berth_settings& settings) {
    const Descriptor cgroup = BERTH_TRY(open_cgroup(path));
    AttachReport report{.cgroup = path, .look = {}, .other_programs = other_programs(cgroup)};
    Programs programs = BERTH_TRY(Programs::load());
    Maps maps = BERTH_TRY(programs.maps());
    BERTH_TRY(maps.write_settings(settings));
    BERTH_TRY(programs.attach(cgroup));
    Keeper keeper(std::move(maps), settings);
    report.look = BERTH_TRY(keeper.look());
    BERTH_TRY(programs.pin(pins));
    return report;
}

}  // namespace

Result<berth_settings> settings_for(const std::string& cgroup, const CoverOptions& options) {
    berth_settings settings{};
    settings.version = BERTH_TABLE_VERSION;
    settings.table_size = sizeof(berth_table);
    settings.first = options.range.first;
    settings.last = options.range.last;
    settings.brief_rest_ms = options.rests.brief_ms;
    settings.lengthy_rest_ms = options.rests.lengthy_ms;
    if (cgroup.size() >= sizeof(settings.cgroup)) {
        return std::unexpected(Error(Errc::invalid_argument, "attach", cgroup, ENAMETOOLONG,
                                     "the path of the cgroup is longer than 255 bytes"));
    }
    std::ranges::copy(cgroup, settings.cgroup);
    for (const PortRange& range : options.excluded) {
        for (unsigned port = range.first; port <= range.last; ++port) {
            settings.excluded[port / 64] |= 1ULL << (port % 64);
        }
    }
    return settings;
}

Result<AttachReport> attach(const std::string& cgroup, const std::string& pins,
                            const CoverOptions& options) {
    const std::string path = cgroup.empty() ? BERTH_TRY(cgroup_mount()) : cgroup;
    BERTH_TRY(open_cgroup(path));
    const berth_settings settings = BERTH_TRY(settings_for(path, options));
    const Descriptor directory = BERTH_TRY(make_directory(pins));
    Result<AttachReport> report = attach_and_pin(path, pins, settings);
    if (!report) {
        remove_pins(pins);
    }
    return report;
}

Result<void> detach(const std::string& pins) {
    const Descriptor directory = BERTH_TRY(open_directory(pins));
    if (!is_bpf_file_system(pins)) {
        return std::unexpected(
            Error(Errc::invalid_argument, "detach", pins, 0, "this is no bpf file system"));
    }
    remove_pins(pins);
    if (!is_removed(directory)) {
        return std::unexpected(pin_failure(errno, "detach", pins));
    }
    return {};
}

Result<void> run_agent(const std::string& pins, const std::function<bool()>& should_stop) {
    const Descriptor directory = BERTH_TRY(open_directory(pins));
    if (!lock(directory)) {
        return std::unexpected(
            Error(Errc::port_in_use, "start agent", pins, 0, "another agent is at work"));
    }
    Maps maps = BERTH_TRY(Maps::open(pins));
    const berth_settings settings = BERTH_TRY(maps.read_settings());
    Keeper keeper(std::move(maps), settings);
    std::uint64_t looked_ms = 0;
    while (!should_stop() && !is_removed(directory)) {
        const std::uint64_t since = monotonic_ms() - looked_ms;
        const std::uint64_t soon = std::max(kSoonMs, keeper.look_ms() * kLookShare);
        if (since >= kLookIntervalMs || (since >= soon && keeper.is_asked())) {
            // What fails once is tried again; what fails for ever lets the tables expire.
            (void)keeper.look();
            looked_ms = monotonic_ms();
        }
        ::poll(nullptr, 0, kTickMs);
    }
    return {};
}

}  // namespace berth::internal::bpf
