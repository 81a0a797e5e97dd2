// SPDX-License-Identifier: Apache-2.0
#include "cli/run/run_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace berth::cli {
namespace {

using internal::Call;
using internal::kCallCount;
using internal::PortSource;

// 118204 → "118,204".
std::string grouped(std::uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t i = text.size(); i > 3;) {
        i -= 3;
        text.insert(i, ",");
    }
    return text;
}

std::string duration(std::uint64_t nanoseconds) {
    const double microseconds = static_cast<double>(nanoseconds) / 1e3;
    if (nanoseconds < 100'000) {
        return fmt::format("{:.1f} µs", microseconds);
    }
    return nanoseconds < 10'000'000 ? fmt::format("{:.0f} µs", microseconds)
                                    : fmt::format("{:.0f} ms", microseconds / 1e3);
}

const char* name_of(PortSource source) {
    switch (source) {
        case PortSource::table:
            return "\"table\"";
        case PortSource::program:
            return "\"program\"";
        case PortSource::kernel:
            return "\"kernel\"";
        case PortSource::none:
            break;
    }
    return "null";
}

std::string name_of_error(int error) {
    if (error == 0) {
        return "null";
    }
    const char* name = ::strerrorname_np(error);
    return name != nullptr ? fmt::format("\"{}\"", name) : fmt::format("\"{}\"", error);
}

}  // namespace

std::string describe_statistics(const internal::CallStatistics& statistics,
                                std::uint32_t table_size) {
    std::string text = fmt::format(
        "berth: {} ports given, {} noted, {} chosen by the kernel, {} refused by it ({} calls "
        "tried "
        "again), {} calls waited, {} got none",
        grouped(statistics.given.load()), grouped(statistics.noted.load()),
        grouped(statistics.by_kernel.load()), grouped(statistics.refused.load()),
        grouped(statistics.retried.load()), grouped(statistics.waited.load()),
        grouped(statistics.failed.load()));
    for (unsigned i = 0; i < kCallCount; ++i) {
        if (const std::uint64_t count = statistics.calls[i].load(); count > 0) {
            text += fmt::format(" · {} × {} {}, worst {}", grouped(count),
                                internal::name_of(static_cast<Call>(i)),
                                duration(statistics.costs[i].median_ns()),
                                duration(statistics.costs[i].worst_ns()));
        }
    }
    return text + fmt::format(" · at most {} of {} ports taken at once",
                              grouped(statistics.most_taken.load()), grouped(table_size));
}

std::string describe_event(const internal::RunEvent& event) {
    const auto seconds = static_cast<std::time_t>(event.time_ns / 1'000'000'000);
    return fmt::format(
        R"({{"time":"{:%Y-%m-%dT%H:%M:%S}.{:06}Z","pid":{},"call":"{}","protocol":"{}",)"
        R"("port":{},"source":{},"refusals":{},"error":{},"cost_ns":{}}})",
        fmt::gmtime(seconds), event.time_ns / 1'000 % 1'000'000, event.pid,
        internal::name_of(event.call),
        to_string(event.protocol == 0 ? Protocol::udp : Protocol::tcp),
        event.port == 0 ? "null" : std::to_string(event.port),
        name_of(static_cast<PortSource>(event.source)), event.refusals, name_of_error(event.error),
        event.cost_ns);
}

Result<RunLog> RunLog::open(const std::string& path) {
    RunLog log;
    log.path_ = path;
    if (!path.empty()) {
        log.file_ =
            Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
        if (!log.file_.is_open()) {
            return std::unexpected(Error::from_errno(errno, "open log", path));
        }
    }
    return log;
}

void RunLog::drain(internal::EventRing& events, bool is_last) {
    constexpr unsigned kEventLimit = internal::EventRing::kPlaceCount;
    if (!is_open()) {
        return;
    }
    std::string text;
    for (unsigned i = 0; i < kEventLimit; ++i) {
        const auto event = events.next(!is_last);
        if (!event) break;
        text += describe_event(*event) + '\n';
    }
    write(text);
}

void RunLog::write(const std::string& text) {
    for (std::size_t written = 0; written < text.size() && first_error_ == 0;) {
        const ssize_t size = ::write(file_.get(), text.data() + written, text.size() - written);
        if (size > 0) {
            written += static_cast<std::size_t>(size);
        } else if (errno != EINTR) {
            first_error_ = errno;
        }
    }
}

std::string RunLog::complaint(const internal::EventRing& events) const {
    if (first_error_ != 0) {
        return fmt::format("berth run: {}: {}; the log is not complete", path_,
                           std::strerror(first_error_));
    }
    return is_open() && events.lost_count() > 0
               ? fmt::format("berth run: {}: {} events came too fast and are missing", path_,
                             grouped(events.lost_count()))
               : "";
}

}  // namespace berth::cli
