// SPDX-License-Identifier: Apache-2.0
#include "bench/guest/guest.h"

#include "bench/harness/choices.h"
#include "bench/harness/process.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>

namespace berth::bench {
namespace {

bool write_all(int fd, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t size = ::write(fd, bytes.data(), bytes.size());
        if (size < 0 && errno != EINTR) return false;
        bytes = bytes.subspan(size > 0 ? static_cast<std::size_t>(size) : 0);
    }
    return true;
}

bool read_all(int fd, std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t size = ::read(fd, bytes.data(), bytes.size());
        if (size == 0 || (size < 0 && errno != EINTR)) return false;
        bytes = bytes.subspan(size > 0 ? static_cast<std::size_t>(size) : 0);
    }
    return true;
}

/// A list as its length and its items.
template <class List>
bool write_list(int fd, const List& list) {
    const std::uint64_t count = list.size();
    return write_all(fd, std::as_bytes(std::span(&count, 1))) &&
           write_all(fd, std::as_bytes(std::span(list)));
}

template <class List>
bool read_list(int fd, List& list) {
    constexpr std::uint64_t kLongest = 1U << 20U;
    std::uint64_t count = 0;
    if (!read_all(fd, std::as_writable_bytes(std::span(&count, 1))) || count > kLongest) {
        return false;
    }
    list.resize(count);
    return read_all(fd, std::as_writable_bytes(std::span(list)));
}

struct Pipe {
    Descriptor read_end;
    Descriptor write_end;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return std::unexpected(Error::from_errno(errno, "make", "a pipe"));
    }
    return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

/// The command that can be started again; none in another program that has the benchmarks in it.
std::optional<std::string> own_command() {
    std::error_code error;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
    return path.filename() == "berth" ? std::optional(path.string()) : std::nullopt;
}

std::vector<std::string> run_command(const std::string& command, std::string_view allocator) {
    return allocator == kRunBpfAllocator ? std::vector<std::string>{command, "run", "--bpf", "--"}
                                         : std::vector<std::string>{command, "run", "--"};
}

void exec_words(const std::vector<std::string>& words) noexcept {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    ::execv(pointers.front(), pointers.data());
}

std::string read_line(int fd) {
    std::string line;
    char next = '\0';
    while (::read(fd, &next, 1) == 1 && next != '\n') line += next;
    return line;
}

/// Why nothing can run as a guest of `allocator` here; empty when it can.
Result<std::string> obstacle_to(std::string_view allocator) {
    const auto command = own_command();
    if (!command) {
        return "this program is not the berth command";
    }
    Pipe errors = BERTH_TRY(make_pipe());
    const pid_t process = BERTH_TRY(fork_helper());
    if (process == 0) {
        ::dup2(errors.write_end.get(), STDERR_FILENO);
        std::vector<std::string> words = run_command(*command, allocator);
        words.insert(words.end(), {*command, "bench-guest", "nothing"});
        exec_words(words);
        ::_exit(127);
    }
    errors.write_end = Descriptor();
    std::string complaint = read_line(errors.read_end.get());
    wait_for_helper(process);
    return complaint;
}

}  // namespace

Result<std::vector<std::string>> choose_allocators_and_guests(
    const Selection& selection, std::span<const std::string_view> defaults, Reporter& reporter) {
    std::vector<std::string> allocators =
        BERTH_TRY(choose_allocators(selection, defaults, reporter));
    for (const std::string_view guest : {kRunAllocator, kRunBpfAllocator}) {
        if (std::ranges::find(allocators, guest) == allocators.end()) continue;
        const std::string obstacle = BERTH_TRY(obstacle_to(guest));
        if (obstacle.empty()) continue;
        reporter.note(fmt::format("{} is left out: {}", guest, obstacle),
                      !selection.allocators.empty());
        if (std::erase(allocators, guest) > 0 && allocators.empty()) {
            return std::unexpected(Error(Errc::unsupported, "bench", guest, 0,
                                         "nothing can run as its guest here",
                                         "all other allocators work without it"));
        }
    }
    return allocators;
}

void exec_guest(std::string_view allocator, const std::vector<std::string>& words) noexcept {
    if (const auto command = own_command()) {
        std::vector<std::string> all = run_command(*command, allocator);
        all.insert(all.end(), {*command, "bench-guest"});
        all.insert(all.end(), words.begin(), words.end());
        exec_words(all);
    }
}

Result<Guest> Guest::start(std::string_view allocator, const std::vector<std::string>& words) {
    Pipe questions = BERTH_TRY(make_pipe());
    Pipe answers = BERTH_TRY(make_pipe());
    const pid_t process = BERTH_TRY(fork_helper());
    if (process == 0) {
        ::dup2(questions.read_end.get(), STDIN_FILENO);
        ::dup2(answers.write_end.get(), STDOUT_FILENO);
        exec_guest(allocator, words);
        ::_exit(127);
    }
    return Guest(process, std::move(questions.write_end), std::move(answers.read_end));
}

Guest::~Guest() {
    if (process_ != 0) {
        questions_ = Descriptor();
        wait_for_helper(process_);
    }
}

Result<GuestAnswer> Guest::ask(GuestQuestion question) {
    GuestAnswer answer;
    const bool is_answered = write_all(questions_.get(), std::as_bytes(std::span(&question, 1))) &&
                             read_list(answers_.get(), answer.batch.succeeded_ns) &&
                             read_list(answers_.get(), answer.batch.failed_ns) &&
                             read_list(answers_.get(), answer.batch.first_failure) &&
                             read_list(answers_.get(), answer.values);
    if (!is_answered) {
        return std::unexpected(Error(Errc::interrupted, "measure", kRunAllocator, 0,
                                     "the program under 'berth run' has ended"));
    }
    return answer;
}

Result<Batch> Guest::measure() { return std::move(BERTH_TRY(ask(GuestQuestion::measure)).batch); }

int answer_questions(const std::function<Result<GuestAnswer>(GuestQuestion)>& answer) {
    GuestQuestion question{};
    while (read_all(STDIN_FILENO, std::as_writable_bytes(std::span(&question, 1)))) {
        const Result<GuestAnswer> given = answer(question);
        const bool is_written = given && write_list(STDOUT_FILENO, given->batch.succeeded_ns) &&
                                write_list(STDOUT_FILENO, given->batch.failed_ns) &&
                                write_list(STDOUT_FILENO, given->batch.first_failure) &&
                                write_list(STDOUT_FILENO, given->values);
        if (!is_written) return 1;
    }
    return 0;
}

}  // namespace berth::bench
