// SPDX-License-Identifier: Apache-2.0
#pragma once

// A scenario that a seed decides, from its begin to its end: actors come and do things, inside
// completions and outside of them; then all wind down, and the loop must end by itself, leaving
// nothing behind.

#include <berth/loop.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace berth::test::stress {

struct Outcome {
    std::string findings;  // a line for each; empty: all is well
    std::string trace;     // the last system calls
    std::uint64_t completion_count = 0;
    std::uint64_t fault_count = 0;
};

Outcome run_scenario(std::uint64_t seed, EngineKind engine, std::size_t trace_length = 40);

}  // namespace berth::test::stress
