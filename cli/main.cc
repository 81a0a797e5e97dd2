// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <poll.h>
#include <unistd.h>
#include <iostream>

namespace {

/// A reader that has seen enough (`| head`) is no failure.
bool is_reader_gone() {
    pollfd output = {STDOUT_FILENO, POLLOUT, 0};
    return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
    const std::span<char*> all(arguments, static_cast<std::size_t>(argument_count));
    const berth::cli::ExitCode code =
        berth::cli::run(all.empty() ? all : all.subspan(1), std::cout, std::cerr);
    if (!std::cout.flush() && !is_reader_gone()) {
        std::cerr << "berth: the result cannot be written to standard output\n";
        return static_cast<int>(berth::cli::ExitCode::failed);
    }
    return static_cast<int>(code);
}
