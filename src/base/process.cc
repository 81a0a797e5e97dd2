// SPDX-License-Identifier: Apache-2.0
#include "src/base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

namespace berth::internal {
namespace {

std::optional<ProcessStat> read_stat(pid_t pid) {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
    const int saved_errno = errno;
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    char buffer[1024];
    const ssize_t size = file >= 0 ? ::read(file, buffer, sizeof buffer) : -1;
    if (file >= 0) {
        ::close(file);
    }
    errno = saved_errno;
    if (size <= 0) {
        return std::nullopt;
    }
    return parse_process_stat({buffer, static_cast<std::size_t>(size)});
}

}  // namespace

// Fields are counted from the last ')': the command name before it may hold anything.
std::optional<ProcessStat> parse_process_stat(std::string_view text) {
    constexpr unsigned kThreadCountField = 18;  // 3 (the state) is field 1 here
    constexpr unsigned kStartField = 20;
    const std::size_t end_of_name = text.rfind(')');
    if (end_of_name == std::string_view::npos || end_of_name + 2 >= text.size()) {
        return std::nullopt;
    }
    text.remove_prefix(end_of_name + 2);
    ProcessStat stat;
    stat.state = text.front();
    for (unsigned field = 1; field <= kStartField; ++field) {
        const std::size_t space = text.find(' ');
        if (space == std::string_view::npos) {
            return std::nullopt;
        }
        std::uint64_t* value = field == kThreadCountField ? &stat.thread_count
                               : field == kStartField     ? &stat.start_ticks
                                                          : nullptr;
        if (value != nullptr) {
            std::from_chars(text.data(), text.data() + space, *value);
        }
        text.remove_prefix(space + 1);
    }
    return stat;
}

std::uint64_t read_own_process_word() noexcept {
    ProcessIdentity self{::getpid(), 0};
    if (const auto stat = read_stat(self.pid)) {
        self.start_ticks = stat->start_ticks;
    }
    const std::uint64_t word = self.packed();
    fork_page().process_word.store(word, std::memory_order_relaxed);
    return word;
}

std::uint64_t own_pid_namespace() noexcept {
    struct stat pid_namespace{};
    return ::stat("/proc/self/ns/pid", &pid_namespace) == 0 ? pid_namespace.st_ino : 0;
}

bool is_alive(const ProcessIdentity& process) noexcept {
    if (::kill(process.pid, 0) != 0 && errno == ESRCH) {
        return false;
    }
    const auto stat = read_stat(process.pid);
    if (!stat) {
        return ::kill(process.pid, 0) == 0 || errno != ESRCH;
    }
    const bool has_exited = stat->state == 'X' || (stat->state == 'Z' && stat->thread_count <= 1);
    const bool is_another =
        process.start_ticks != 0 && (stat->start_ticks & ProcessIdentity::kStartMask) !=
                                        (process.start_ticks & ProcessIdentity::kStartMask);
    return !has_exited && !is_another;
}

}  // namespace berth::internal
