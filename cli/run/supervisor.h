// SPDX-License-Identifier: Apache-2.0
#pragma once

// Starts a program and waits for its end: passes signals on to it, lets the tables be kept and the
// log be written meanwhile. The program stays in the supervisor's process group and terminal.

#include <functional>
#include <string>
#include <vector>

#include <atomic>
#include <cstdint>

namespace berth::cli {

struct ProgramStart {
    std::string path;
    std::vector<std::string> arguments;    // the first is the name it is called by
    std::vector<std::string> environment;  // NAME=VALUE
};

struct ProgramEnd {
    int start_error = 0;  // errno of a program that never began
    int wait_status = 0;  // as waitpid() gives it
};

class Supervisor {
public:
    /// Calls `on_pause(is_woken)` whenever it wakes, and sleeps for as many milliseconds as that
    /// returns, or until `wake` changes and is woken as a futex.
    Supervisor(std::atomic<std::uint32_t>& wake,
               std::function<std::uint64_t(bool is_woken)> on_pause)
        : wake_(wake), on_pause_(std::move(on_pause)) {}

    /// One at a time in a process.
    ProgramEnd run(const ProgramStart& start);

private:
    std::atomic<std::uint32_t>& wake_;
    std::function<std::uint64_t(bool)> on_pause_;
};

/// Ends this process as the program ended: by the same signal, or returns its exit status.
int end_like(int wait_status);

}  // namespace berth::cli
