// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/process_figures.h"

#include <berth/descriptor.h>

#include <fcntl.h>
#include <unistd.h>
#include <cstdio>
#include <ctime>

#include <charconv>
#include <string>
#include <string_view>

namespace berth::bench {
namespace {

std::string read_of_process(pid_t process, const char* name) {
    const std::string path = "/proc/" + std::to_string(process) + "/" + name;
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text(8'192, '\0');
    const ssize_t size = file.is_open() ? ::read(file.get(), text.data(), text.size()) : 0;
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
}

/// The number behind `key`, as in "VmHWM:     5120 kB".
std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
    const std::size_t start = text.find(key);
    if (start == std::string_view::npos) {
        return std::nullopt;
    }
    const std::size_t digits = text.find_first_of("0123456789", start + key.size());
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    if (digits == std::string_view::npos ||
        std::from_chars(text.data() + digits, end, value).ec != std::errc{}) {
        return std::nullopt;
    }
    return value;
}

}  // namespace

std::uint64_t process_cpu_ns(pid_t process) noexcept {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) {
        return 0;
    }
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
}

CpuTicks process_cpu_ticks(pid_t process) {
    const std::string text = read_of_process(process, "stat");
    // The name in parentheses may hold anything, so fields count from behind it.
    const std::size_t name_end = text.rfind(')');
    unsigned long long user = 0;
    unsigned long long system = 0;
    if (name_end == std::string::npos ||
        std::sscanf(text.c_str() + name_end + 1,
                    " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                    &system) != 2) {
        return {};
    }
    return {user, system};
}

void add_cpu_shares(Row& row, const Value& cpu_ns, std::optional<double> user_percent) {
    const auto* const each_ns = std::get_if<double>(&cpu_ns);
    const bool is_known = each_ns != nullptr && user_percent.has_value();
    // So many nanoseconds each are as many milliseconds for a million.
    const double user_ms = is_known ? *each_ns * *user_percent / 100.0 : 0;
    row.figure("user_percent", user_percent ? Value{*user_percent} : Value{})
        .figure("user_ms", is_known ? Value{user_ms} : Value{})
        .figure("system_ms", is_known ? Value{*each_ns - user_ms} : Value{});
}

std::optional<std::int64_t> private_memory_kib(pid_t process) {
    const std::string text = read_of_process(process, "smaps_rollup");
    const auto clean = number_after(text, "Private_Clean:");
    const auto dirty = number_after(text, "Private_Dirty:");
    return clean && dirty ? std::optional(*clean + *dirty) : std::nullopt;
}

std::optional<std::int64_t> process_peak_rss_kib(pid_t process) {
    return number_after(read_of_process(process, "status"), "VmHWM:");
}

void reset_own_peak_rss() noexcept {
    const Descriptor file(::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
    if (file.is_open()) {
        // Where it is refused the peak includes the parent's, the same for every program.
        static_cast<void>(::write(file.get(), "5", 1) == 1);
    }
}

}  // namespace berth::bench
