// SPDX-License-Identifier: Apache-2.0
#include "cli/run/run_files.h"

#include "src/base/kernel_constants.h"
#include "src/base/process.h"
#include "src/ports/namespace_settings.h"

#include <berth/descriptor.h>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace berth::cli {
namespace {

using internal::ProcessIdentity;
using internal::RunPage;

constexpr const char* kDirectory = "/dev/shm";
constexpr Protocol kProtocols[] = {Protocol::udp, Protocol::tcp};

std::string prefix_of_user() { return fmt::format("berth-run.{}.", ::geteuid()); }

std::string prefix_of_runs() {
    return fmt::format("{}{:x}-", prefix_of_user(), internal::own_pid_namespace());
}

std::string prefix_of_run() {
    return fmt::format("{}/{}{:x}", kDirectory, prefix_of_runs(), internal::own_process_word());
}

TableOptions table_options_of(const RunRequest& request) {
    TableOptions options;
    options.range = request.range;
    options.rest_period = request.rest_period;
    options.excluded = request.excluded;
    return options;
}

// The kernel knows IP_LOCAL_PORT_RANGE and does not ignore it, as it does outside the namespace's
// own range.
bool can_narrow(PortRange range) {
    const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    std::uint32_t value = 0;
    socklen_t size = sizeof value;
    if (!socket.is_open() ||
        ::getsockopt(socket.get(), IPPROTO_IP, IP_LOCAL_PORT_RANGE, &value, &size) != 0) {
        return false;
    }
    const auto settings = internal::read_namespace_settings();
    return settings && settings->range.contains(range.first) &&
           settings->range.contains(range.last);
}

Result<RunPage*> map_new_page(const std::string& path) {
    constexpr const char* kMake = "make run page";
    const Descriptor file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.is_open()) {
        return std::unexpected(Error::from_errno(errno, kMake, path));
    }
    // A page without room behind it would kill whoever touches it first.
    if (const int reason = ::posix_fallocate(file.get(), 0, sizeof(RunPage)); reason != 0) {
        ::unlink(path.c_str());
        return std::unexpected(
            Error::from_errno(reason, kMake, path, "it needs 6 MB of room there"));
    }
    void* memory =
        ::mmap(nullptr, sizeof(RunPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) {
        ::unlink(path.c_str());
        return std::unexpected(Error::from_errno(errno, kMake, path));
    }
    return static_cast<RunPage*>(memory);
}

}  // namespace

RunFiles::RunFiles(RunFiles&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)),
      page_path_(std::move(other.page_path_)),
      table_paths_(std::move(other.table_paths_)),
      tables_(std::move(other.tables_)),
      own_paths_(std::exchange(other.own_paths_, {})) {}

RunFiles::~RunFiles() {
    for (const std::string& path : own_paths_) ::unlink(path.c_str());
    if (page_ != nullptr) {
        ::munmap(page_, sizeof(RunPage));
    }
}

Result<RunFiles> RunFiles::make(const RunRequest& request) {
    RunFiles files;
    const std::string prefix = prefix_of_run();
    BERTH_TRY(files.open_tables(
        request, request.table.empty()
                     ? prefix
                     : fmt::format("{}/{}table-{}", kDirectory, prefix_of_user(), request.table)));
    files.page_path_ = prefix + ".page";
    BERTH_TRY(files.make_page(request));
    return files;
}

Result<void> RunFiles::open_tables(const RunRequest& request, const std::string& prefix) {
    for (const Protocol protocol : kProtocols) {
        table_paths_.push_back(fmt::format("{}.{}", prefix, to_string(protocol)));
        if (request.table.empty()) {
            own_paths_.push_back(table_paths_.back());
        }
        tables_.push_back(
            BERTH_TRY(PortTable::open(table_paths_.back(), protocol, table_options_of(request))));
        if (request.range && tables_.back().range() != *request.range) {
            return std::unexpected(
                Error(Errc::invalid_argument, "open port table", request.table, 0,
                      "it was made with another range than --range",
                      "leave --range out, or remove its files when nobody uses them"));
        }
    }
    return {};
}

Result<void> RunFiles::make_page(const RunRequest& request) {
    page_ = BERTH_TRY(map_new_page(page_path_));
    own_paths_.push_back(page_path_);
    internal::RunOptions& options = page_->options;
    for (std::size_t i = 0; i < options.table_paths.size(); ++i) {
        const std::string& path = table_paths_[i];
        std::copy_n(path.begin(), std::min(path.size(), options.table_paths[i].size() - 1),
                    options.table_paths[i].begin());
    }
    options.wait_ms = static_cast<std::uint32_t>(request.wait_for_port.count());
    options.per_process = request.per_process;
    options.takes_another = request.takes_another ? 1 : 0;
    options.is_counting = request.wants_stats ? 1 : 0;
    options.is_logging = request.log_path.empty() ? 0 : 1;
    options.can_narrow = can_narrow(table(Protocol::tcp).range()) ? 1 : 0;
    options.has_own_range = request.range ? 1 : 0;
    options.has_exclusions = request.excluded.empty() ? 0 : 1;
    page_->magic = RunPage::kMagic;
    page_->version = RunPage::kVersion;
    page_->size = sizeof(RunPage);
    return {};
}

void remove_abandoned_files() {
    const std::string prefix = prefix_of_runs();
    std::error_code error;
    std::vector<std::filesystem::path> abandoned;
    for (const auto& entry : std::filesystem::directory_iterator(kDirectory, error)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(prefix)) continue;
        const std::string_view rest = std::string_view(name).substr(prefix.size());
        std::uint64_t process = 0;
        const auto [end, reason] =
            std::from_chars(rest.data(), rest.data() + rest.size(), process, 16);
        const bool names_process =
            reason == std::errc{} && end != rest.data() + rest.size() && *end == '.';
        if (names_process && !internal::is_alive(ProcessIdentity::unpack(process))) {
            abandoned.push_back(entry.path());
        }
    }
    for (const auto& path : abandoned) std::filesystem::remove(path, error);
}

}  // namespace berth::cli
