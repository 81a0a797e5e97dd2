// SPDX-License-Identifier: Apache-2.0
#pragma once

// The allocators `berth-run` and `berth-run-bpf`: an unmodified program under `berth run` and under
// `berth run --bpf`. The program is this command itself, started once more as
// `berth run -- berth bench-guest …`, where it makes plain system calls and does not touch the
// library's tables. What it measures comes back through a pipe.

#include "bench/harness/series.h"
#include "bench/harness/workload.h"

#include <berth/descriptor.h>
#include <berth/error.h>

#include <sys/types.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::bench {

inline constexpr std::string_view kRunAllocator = "berth-run";
inline constexpr std::string_view kRunBpfAllocator = "berth-run-bpf";

/// Whether the allocator is a guest: one of the two.
constexpr bool is_guest(std::string_view allocator) noexcept {
    return allocator == kRunAllocator || allocator == kRunBpfAllocator;
}

/// As choose_allocators(), without the guests that cannot run here: what `berth run --bpf` needs
/// is found out by starting it once.
Result<std::vector<std::string>> choose_allocators_and_guests(
    const Selection& selection, std::span<const std::string_view> defaults, Reporter& reporter);

/// Becomes `berth run -- berth bench-guest WORDS`, with the options of `allocator`; returns only
/// when that fails.
void exec_guest(std::string_view allocator, const std::vector<std::string>& words) noexcept;

/// What a guest is asked to do.
enum class GuestQuestion : char { measure = 'm', exhaust = 'x' };

struct GuestAnswer {
    Batch batch;
    std::vector<std::uint64_t> values;  // what else the question is about
};

class Guest {
public:
    /// `words` come after `bench-guest`. **Errors:** unsupported in a program that is not the berth
    /// command; as pipe2() and fork().
    static Result<Guest> start(std::string_view allocator, const std::vector<std::string>& words);
    Guest(Guest&& other) noexcept
        : process_(std::exchange(other.process_, 0)),
          questions_(std::move(other.questions_)),
          answers_(std::move(other.answers_)) {}
    Guest& operator=(Guest&&) = delete;
    /// Ends it.
    ~Guest();

    /// **Errors:** interrupted, when it has ended instead.
    Result<GuestAnswer> ask(GuestQuestion question);
    /// Lets it measure one batch. **Errors:** as ask().
    Result<Batch> measure();

private:
    Guest(pid_t process, Descriptor questions, Descriptor answers) noexcept
        : process_(process), questions_(std::move(questions)), answers_(std::move(answers)) {}

    pid_t process_;
    Descriptor questions_;
    Descriptor answers_;
};

/// The guest's side: answers each question on standard input with what `answer` says, until there
/// are no more. Returns the exit status.
int answer_questions(const std::function<Result<GuestAnswer>(GuestQuestion)>& answer);

/// `berth bench-guest WORDS`. Returns the exit status.
int run_guest(const std::vector<std::string>& words);

}  // namespace berth::bench
