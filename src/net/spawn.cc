// SPDX-License-Identifier: Apache-2.0
#include "src/net/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace berth::internal {
namespace {

constexpr int kStandardCount = 3;

/// The child's descriptors and directory, done in this order between fork and exec.
class FileActions {
public:
    FileActions() noexcept { ::posix_spawn_file_actions_init(&actions_); }
    ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;

    /// 0, or an errno.
    int set(const SpawnOptions& options) noexcept;
    const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

private:
    int set_standard(int target, int source) noexcept;

    posix_spawn_file_actions_t actions_;
    std::array<Descriptor, kStandardCount> copies_;
};

// Of a source that is itself a standard descriptor a copy is made, or an earlier dup2() could have
// replaced it.
int FileActions::set_standard(int target, int source) noexcept {
    if (source == SpawnOptions::kNullDevice) {
        const int mode = target == STDIN_FILENO ? O_RDONLY : O_WRONLY;
        return ::posix_spawn_file_actions_addopen(&actions_, target, "/dev/null", mode, 0);
    }
    if (source == SpawnOptions::kInherit) {
        source = target;
    }
    if (source < kStandardCount && source != target) {
        Descriptor& copy = copies_[static_cast<std::size_t>(target)];
        copy.reset(::fcntl(source, F_DUPFD_CLOEXEC, kStandardCount));
        if (!copy.is_open()) {
            return errno;
        }
        source = copy.get();
    }
    if (source == target && ::fcntl(source, F_GETFD) < 0) {
        return 0;  // this process has none either
    }
    return ::posix_spawn_file_actions_adddup2(&actions_, source, target);
}

int FileActions::set(const SpawnOptions& options) noexcept {
    const std::array<int, kStandardCount> sources = {options.input, options.output, options.error};
    int reason = 0;
    for (int target = 0; target < kStandardCount && reason == 0; ++target) {
        reason = set_standard(target, sources[static_cast<std::size_t>(target)]);
    }
    if (reason == 0) {
        reason = ::posix_spawn_file_actions_addclosefrom_np(&actions_, kStandardCount);
    }
    if (reason == 0 && !options.directory.empty()) {
        reason = ::posix_spawn_file_actions_addchdir_np(&actions_, options.directory.c_str());
    }
    return reason;
}

class Attributes {
public:
    explicit Attributes(const SpawnOptions& options) noexcept {
        ::posix_spawnattr_init(&attributes_);
        sigset_t set;
        sigemptyset(&set);
        ::posix_spawnattr_setsigmask(&attributes_, &set);
        sigaddset(&set, SIGPIPE);
        ::posix_spawnattr_setsigdefault(&attributes_, &set);
        const int group = options.has_own_group ? POSIX_SPAWN_SETPGROUP : 0;
        ::posix_spawnattr_setflags(&attributes_, static_cast<short>(POSIX_SPAWN_SETSIGMASK |
                                                                    POSIX_SPAWN_SETSIGDEF | group));
    }
    ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
    Attributes(const Attributes&) = delete;
    Attributes& operator=(const Attributes&) = delete;

    const posix_spawnattr_t* get() const noexcept { return &attributes_; }

private:
    posix_spawnattr_t attributes_;
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (const std::string& text : texts) {
        pointers.push_back(const_cast<char*>(text.c_str()));
    }
    pointers.push_back(nullptr);
    return pointers;
}

}  // namespace

Result<pid_t> spawn_program(const std::vector<std::string>& arguments,
                            const SpawnOptions& options) {
    if (arguments.empty()) {
        return std::unexpected(
            Error(Errc::invalid_argument, "start", "process", 0, "no program is named"));
    }
    const std::string& program = arguments.front();
    FileActions actions;
    if (const int reason = actions.set(options); reason != 0) {
        return std::unexpected(Error::from_errno(reason, "prepare", program));
    }
    const Attributes attributes(options);
    const std::vector<char*> argv = pointers_to(arguments);
    const std::vector<char*> own =
        options.environment ? pointers_to(*options.environment) : std::vector<char*>();
    char* const* environment = options.environment ? own.data() : ::environ;
    const auto start = options.searches_path ? ::posix_spawnp : ::posix_spawn;
    pid_t pid = 0;
    const int reason =
        start(&pid, program.c_str(), actions.get(), attributes.get(), argv.data(), environment);
    if (reason != 0) {
        return std::unexpected(Error::from_errno(reason, "start", program));
    }
    return pid;
}

}  // namespace berth::internal
