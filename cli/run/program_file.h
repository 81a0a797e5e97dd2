// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds the program that `berth run` is to start, and tells beforehand whether the dynamic linker
// would let a preloaded object into it. Reads ELF headers and `#!` lines; runs nothing.

#include "cli/exit_code.h"

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

namespace berth::cli {

/// Why a program cannot be started, or not entered.
struct ProgramRefusal {
    int exit_status;  // 126, 127 or ExitCode::unsupported
    std::string message;
};

/// Finds `name` as execvp() does: by PATH unless it has a slash in it.
std::expected<std::string, ProgramRefusal> find_program(const std::string& name);

/// What berth can tell from a program's file. Scripts are judged by their interpreter.
enum class ProgramKind : std::uint8_t {
    enterable,      ///< Dynamically linked, for this machine.
    static_binary,  ///< No dynamic linker.
    go_binary,      ///< Makes its system calls itself, even where it is dynamically linked.
    privileged,     ///< setuid, setgid or file capabilities: the linker ignores LD_PRELOAD.
    foreign,        ///< Another architecture or word size.
    unreadable      ///< Not to be read, so not known.
};

struct ProgramFile {
    ProgramKind kind = ProgramKind::unreadable;
    std::string path;  // of the file that was judged: the program, or a script's interpreter
};

ProgramFile examine_program(const std::string& path);

/// Nothing for a program that can be entered, or that is not known not to be.
std::expected<void, ProgramRefusal> check_enterable(const ProgramFile& file);

}  // namespace berth::cli
