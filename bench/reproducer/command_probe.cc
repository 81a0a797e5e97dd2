// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/process.h"
#include "bench/harness/statistics.h"
#include "bench/reproducer/fps_line.h"
#include "bench/reproducer/probe.h"

#include <berth/descriptor.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace berth::bench {
namespace {

constexpr int kNotStarted = 127;
constexpr unsigned kEndWaitMs = 1'000;
constexpr std::size_t kMaxLine = 4'096;

[[noreturn]] void become_command(const std::string& command, int output) {
    ::setpgid(0, 0);
    const int null = ::open("/dev/null", O_RDONLY);
    if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0) {
        ::_exit(kNotStarted);
    }
    std::signal(SIGINT, SIG_DFL);  // an ignored signal would stay ignored in the command
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(kNotStarted);
}

class CommandProbe final : public Probe {
public:
    CommandProbe(std::string command, pid_t process, Descriptor output)
        : command_(std::move(command)), process_(process), output_(std::move(output)) {}
    ~CommandProbe() override { end_group(); }
    CommandProbe(const CommandProbe&) = delete;
    CommandProbe& operator=(const CommandProbe&) = delete;

    void begin_window() override { window_.clear(); }

    void wait(std::chrono::milliseconds step) override {
        pollfd wanted{.fd = output_.get(), .events = POLLIN, .revents = 0};
        if (::poll(&wanted, 1, static_cast<int>(step.count())) > 0) {
            read_output();
        }
    }

    /// The first line of a window also tells of the time before it.
    bool has_enough() const override { return !output_.is_open() || window_.size() >= 2; }

    Frames end_window() override {
        if (window_.size() < 2) {
            return {};
        }
        return {.per_second = median({window_.begin() + 1, window_.end()}), .longest_ms = {}};
    }

    std::optional<std::string> problem() override {
        if (!output_.is_open()) {
            return "the probe '" + command_ + "' has ended" +
                   (has_parsed_ ? "" : ", and printed no frames per second");
        }
        return has_parsed_ ? std::nullopt
                           : std::optional<std::string>("the probe '" + command_ +
                                                        "' printed no frames per second");
    }

private:
    void read_output() {
        std::array<char, 4'096> buffer;
        const ssize_t size = ::read(output_.get(), buffer.data(), buffer.size());
        if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) {
            output_.reset();
        }
        for (ssize_t index = 0; index < size; ++index) {
            take(buffer[static_cast<std::size_t>(index)]);
        }
    }

    void take(char character) {
        if (character != '\n') {
            if (line_.size() < kMaxLine) {
                line_.push_back(character);
            }
            return;
        }
        if (const auto fps = parse_fps_line(line_)) {
            window_.push_back(*fps);
            has_parsed_ = true;
        }
        line_.clear();
    }

    /// Asks the group to end, and kills what is left of it after a second.
    void end_group() noexcept {
        ::kill(-process_, SIGTERM);
        const std::uint64_t end_ns = now_ns() + std::uint64_t{kEndWaitMs} * 1'000'000;
        while (now_ns() < end_ns && ::kill(-process_, 0) == 0) {
            if (::waitpid(process_, nullptr, WNOHANG) == process_) {
                is_reaped_ = true;
            }
            ::poll(nullptr, 0, 1);
        }
        ::kill(-process_, SIGKILL);
        while (!is_reaped_ && ::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }

    std::string command_;
    pid_t process_;
    Descriptor output_;  // closed at the end of the command's output
    std::string line_;
    std::vector<double> window_;
    bool has_parsed_ = false;
    bool is_reaped_ = false;
};

}  // namespace

Result<std::unique_ptr<Probe>> start_command_probe(const std::string& command) {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return std::unexpected(Error::from_errno(errno, "start", "the probe"));
    }
    Descriptor read_end(ends[0]);
    const Descriptor write_end(ends[1]);
    const pid_t process = BERTH_TRY(fork_helper());
    if (process == 0) {
        become_command(command, write_end.get());
    }
    // In both processes: whoever comes first, the group exists before it is signalled.
    ::setpgid(process, process);
    return std::make_unique<CommandProbe>(command, process, std::move(read_end));
}

}  // namespace berth::bench
