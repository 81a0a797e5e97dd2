// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <csignal>

namespace berth::cli {
namespace {

volatile std::sig_atomic_t is_interrupted = 0;

void note_interrupt(int) { is_interrupted = 1; }

}  // namespace

void watch_interrupts() {
    struct sigaction action{};
    action.sa_handler = note_interrupt;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
}

bool was_interrupted() noexcept { return is_interrupted != 0; }

}  // namespace berth::cli
