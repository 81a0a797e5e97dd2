// SPDX-License-Identifier: Apache-2.0
#include "src/ports/namespace_settings.h"

#include <berth/descriptor.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>

namespace berth::internal {
namespace {

constexpr const char* kRangePath = "/proc/sys/net/ipv4/ip_local_port_range";
constexpr const char* kReservedPath = "/proc/sys/net/ipv4/ip_local_reserved_ports";
constexpr const char* kReusePath = "/proc/sys/net/ipv4/tcp_tw_reuse";
constexpr const char* kReuseDelayPath = "/proc/sys/net/ipv4/tcp_tw_reuse_delay";
constexpr const char* kTimestampsPath = "/proc/sys/net/ipv4/tcp_timestamps";
constexpr const char* kUnprivilegedPath = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

// "1,3,5,…,65535", the longest list of reserved ports, is 191 KiB long.
constexpr std::size_t kFirstRead = 4096;
constexpr std::size_t kLongestText = std::size_t{1} << 20;

Error unreadable(const char* path, int system_errno) noexcept {
    const char* remedy = system_errno == ENOENT ? "mount /proc with its sys/net part, or give the "
                                                  "range and the reserved ports as options"
                                                : "give the range as an option";
    return Error::from_errno(system_errno, "read", path, remedy);
}

Error refused_text(const char* operation, std::string_view text, const char* reason) noexcept {
    return Error(Errc::invalid_argument, operation, text, 0, reason);
}

Result<std::size_t> read_from_start(int fd, std::string& buffer, const char* path) {
    constexpr int kMaxInterruptions = 100;
    for (int attempt = 0; attempt < kMaxInterruptions; ++attempt) {
        const ssize_t size = ::pread(fd, buffer.data(), buffer.size(), 0);
        if (size >= 0) {
            return static_cast<std::size_t>(size);
        }
        if (errno != EINTR) {
            break;
        }
    }
    return std::unexpected(unreadable(path, errno));
}

// The kernel gives a sysctl list in the first read() only, cut to its size, and answers "end of
// file" to the next one. A read that fills the buffer is therefore repeated with a larger one.
Result<std::string> read_setting(const char* path) {
    const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) {
        return std::unexpected(unreadable(path, errno));
    }
    std::string text;
    for (std::size_t capacity = kFirstRead; capacity <= kLongestText; capacity *= 8) {
        text.resize(capacity);
        const std::size_t size = BERTH_TRY(read_from_start(file.get(), text, path));
        if (size < capacity) {
            text.resize(size);
            return text;
        }
    }
    return std::unexpected(unreadable(path, EFBIG));
}

constexpr bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n'; }

std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && is_space(text.front())) {
        text.remove_prefix(1);
    }
    while (!text.empty() && is_space(text.back())) {
        text.remove_suffix(1);
    }
    return text;
}

// All of `text` as a number from 0 to 65535, digits only.
std::optional<std::uint16_t> parse_number(std::string_view text) noexcept {
    std::uint16_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, value);
    if (failure != std::errc{} || stop != end) {
        return std::nullopt;
    }
    return value;
}

struct Bounds {
    std::uint16_t first;
    std::uint16_t last;
};

// "8080" or "9000-9010".
std::optional<Bounds> parse_bounds(std::string_view text) noexcept {
    const std::size_t dash = text.find('-');
    const auto first = parse_number(text.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1));
    if (!first || !last || *first > *last) {
        return std::nullopt;
    }
    return Bounds{*first, *last};
}

std::uint32_t parse_milliseconds(std::string_view text, std::uint32_t otherwise) noexcept {
    std::uint32_t value = otherwise;
    const std::string_view digits = trimmed(text);
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

}  // namespace

// Reuse needs time stamps. Where its delay can be set (6.14) it is counted in milliseconds; before,
// a clock of seconds had to go on.
TimeWaitRests time_wait_rests(std::string_view reuse, std::string_view timestamps,
                              std::string_view delay) noexcept {
    constexpr std::uint32_t kDefaultDelayMs = 1'000;
    const std::uint32_t clock_ms = trimmed(delay).empty() ? 1'000 : 100;
    TimeWaitRests rests;
    const auto how = parse_number(trimmed(reuse)).value_or(0);
    if (how == 0 || parse_number(trimmed(timestamps)).value_or(0) == 0) {
        return rests;
    }
    const std::uint32_t most = rests.local_ms - clock_ms;
    rests.local_ms = std::min(parse_milliseconds(delay, kDefaultDelayMs), most) + clock_ms;
    rests.remote_ms = how == 1 ? rests.local_ms : rests.remote_ms;
    return rests;
}

TimeWaitRests read_time_wait_rests() {
    return time_wait_rests(read_setting(kReusePath).value_or(""),
                           read_setting(kTimestampsPath).value_or(""),
                           read_setting(kReuseDelayPath).value_or(""));
}

Result<PortRange> parse_port_range(std::string_view text) {
    constexpr const char* kOperation = "parse port range";
    const std::string_view range = trimmed(text);
    const auto gap = std::find_if(range.begin(), range.end(), is_space);
    const auto first = parse_number({range.begin(), gap});
    const auto last = parse_number(trimmed({gap, range.end()}));
    if (!first || !last) {
        return std::unexpected(refused_text(
            kOperation, range, "expected two ports from 1 to 65535 with a space between them"));
    }
    if (*first == 0) {
        return std::unexpected(refused_text(kOperation, range, "0 is not a port"));
    }
    if (*first > *last) {
        return std::unexpected(
            refused_text(kOperation, range, "the first port is greater than the last"));
    }
    return PortRange{*first, *last};
}

Result<std::vector<PortRange>> parse_reserved_ports(std::string_view text) {
    std::vector<PortRange> ranges;
    std::string_view rest = trimmed(text);
    while (!rest.empty()) {
        const std::size_t comma = rest.find(',');
        const std::string_view part = rest.substr(0, comma);
        const auto bounds = parse_bounds(part);
        const bool ends_in_comma = comma + 1 == rest.size();
        if (!bounds || ends_in_comma) {
            return std::unexpected(refused_text("parse reserved ports", part,
                                                "expected ports or ascending ranges up to 65535, "
                                                "as in 8080,9000-9010"));
        }
        // The kernel lets port 0 be reserved ("0-1023"), though nobody can bind it.
        const auto first = std::max<std::uint16_t>(bounds->first, 1);
        if (first <= bounds->last) {
            ranges.push_back({first, bounds->last});
        }
        rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
    std::ranges::sort(ranges, {}, &PortRange::first);
    return ranges;
}

Result<NamespaceSettings> read_namespace_settings() {
    NamespaceSettings settings;
    const std::string range = BERTH_TRY(read_setting(kRangePath));
    settings.range = BERTH_TRY(parse_port_range(range));
    const std::string reserved = BERTH_TRY(read_setting(kReservedPath));
    settings.reserved = BERTH_TRY(parse_reserved_ports(reserved));
    const std::string start = BERTH_TRY(read_setting(kUnprivilegedPath));
    const auto number = parse_number(trimmed(start));
    if (!number) {
        return std::unexpected(
            refused_text("read", kUnprivilegedPath, "the text is no port from 0 to 65535"));
    }
    settings.unprivileged_start = *number;
    return settings;
}

}  // namespace berth::internal
