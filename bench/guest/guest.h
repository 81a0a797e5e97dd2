// SPDX-License-Identifier: Apache-2.0
#pragma once

// The allocator `berth-run`: an unmodified program under `berth run`. The program is this command
// itself, started once more as `berth run -- berth bench-guest …`, where it makes plain system
// calls and does not touch the library's tables. What it measures comes back through a pipe.

#include "bench/harness/series.h"

#include <berth/descriptor.h>
#include <berth/error.h>

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth::bench {

/// The name of the allocator.
inline constexpr std::string_view kRunAllocator = "berth-run";

/// The command that can be started again; none in another program that has the benchmarks in it.
std::optional<std::string> own_command();

/// `berth run -- berth bench-guest WORDS`, as arguments of exec().
std::vector<std::string> guest_command(const std::string& command,
                                       const std::vector<std::string>& words);

/// Becomes `words`; returns only when that fails.
void exec_words(const std::vector<std::string>& words) noexcept;

/// What a guest is asked to do.
enum class GuestQuestion : char { measure = 'm', exhaust = 'x' };

struct GuestAnswer {
    Batch batch;
    std::vector<std::uint64_t> values;  // what else the question is about
};

class Guest {
public:
    /// `words` come after `bench-guest`.
    static Result<Guest> start(const std::vector<std::string>& words);
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
