// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of tasks share. They are part of the conformance suite: each runs over each
// engine.

#include "tests/conformance/engines.h"

#include <berth/event.h>
#include <berth/loop.h>
#include <berth/scope.h>
#include <berth/task.h>

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace berth::test {

using namespace std::chrono_literals;

/// Counts its objects: how many there are, and how many there were.
class Counted {
public:
    struct Figures {
        int made = 0;
        int destroyed = 0;
        int alive() const { return made - destroyed; }
    };

    explicit Counted(Figures& figures) noexcept : figures_(&figures) { ++figures_->made; }
    Counted(Counted&& other) noexcept
        : figures_(other.figures_), is_full_(std::exchange(other.is_full_, false)) {
        ++figures_->made;
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() { ++figures_->destroyed; }

    /// False when it was moved from.
    bool is_full() const noexcept { return is_full_; }

private:
    Figures* figures_;
    bool is_full_ = true;
};

/// The code of a failed result; empty after success.
template <class T>
std::optional<Errc> error_of(const Result<T>& result) {
    return result ? std::nullopt : std::optional(result.error().code());
}

}  // namespace berth::test
