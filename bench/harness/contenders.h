// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which programs a workload for event loops compares, and which of them at the same time.

#include "bench/harness/workload.h"
#include "bench/programs/program.h"

#include <berth/error.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::bench {

struct Contender {
    const Program* program = nullptr;
    bool is_wanted = true;  // false: only there for others to be compared with
    bool is_named = false;  // the user has named both its program and its engine
};

/// "raw epoll".
std::string name_of(const Program& program);
bool is_raw(const Program& program, std::string_view engine) noexcept;

/// Notes that a contender is left out `where` it was to be measured. What a program says that it
/// cannot do (`unsupported`) is missing from the result only when it was named.
void note_left_out(const Contender& contender, std::string_view where, const Error& error,
                   Reporter& reporter);

/// What a workload measures when the user names nothing.
struct ContenderDefaults {
    std::vector<std::string_view> programs;  // empty: all
    std::vector<std::string_view> engines;   // empty: all
};

/// All but the arrays of poll that only answer a question of `transfer`; for the headline, the raw
/// programs and berth over the engines that matter most to the workload.
ContenderDefaults loop_defaults(bool is_headline, std::vector<std::string_view> headline_engines = {
                                                      "epoll", "io_uring"});

/// The programs that can do a job (`can_do`), and the raw ones they are compared with, which come
/// first. What cannot run here is noted; as missing from the result when the user named it.
/// **Errors:** unsupported when nothing is left.
Result<std::vector<Contender>> choose_contenders(const Selection& selection,
                                                 const ContenderDefaults& defaults,
                                                 const std::function<bool(const Program&)>& can_do,
                                                 Reporter& reporter);

/// The same from a given list of programs.
Result<std::vector<Contender>> choose_contenders(std::span<const Program> programs,
                                                 const Selection& selection,
                                                 const ContenderDefaults& defaults,
                                                 const std::function<bool(const Program&)>& can_do,
                                                 Reporter& reporter);

/// What a contender is compared with, by index; kNoContender where there is none.
struct References {
    std::size_t raw;    // the raw program of the same engine; poll's for poll's other arrays
    std::size_t epoll;  // raw level-triggered epoll
};
inline constexpr std::size_t kNoContender = ~std::size_t{0};
References references_of(std::span<const Contender> contenders, std::size_t index);

/// Splits contenders into groups of at most `capacity`, each with everything its members are
/// compared with; a reference may be in several. `capacity` below 3 counts as 3.
std::vector<std::vector<std::size_t>> make_groups(std::span<const Contender> contenders,
                                                  std::size_t capacity);

/// program and engine.
Row contender_row(std::string_view bench, const Program& program);

}  // namespace berth::bench
