// SPDX-License-Identifier: Apache-2.0
#pragma once

// One operation of each kind, made so that it has to wait until it is let: what the tests of
// cancellation and of deadlines at every stage are run on.

#include "src/engine/engine.h"
#include "tests/conformance/watched.h"

#include <berth/loop.h>
#include <berth/operation.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace berth::test {

class Subject {
public:
    explicit Subject(Loop& loop) noexcept : loop_(loop) {}
    virtual ~Subject();
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;

    virtual Operation& operation() = 0;
    virtual unsigned completion_count() const = 0;
    virtual void start(Deadline deadline) = 0;
    virtual void set_then(std::function<void()> then) = 0;
    /// The operation goes, pending or not; start() makes another.
    virtual void throw_away() = 0;
    /// What it waits for happens.
    std::function<void()> let;
    /// Its deadline is not its success.
    bool has_deadline = true;

protected:
    /// A descriptor that goes with it.
    void own(int fd) { owned_.push_back(fd); }
    /// The one that its operation is for.
    void attach(int fd, internal::DescriptorKind kind);

    Loop& loop_;
    internal::SlotHandle slot_;
    std::vector<int> owned_;
    std::shared_ptr<void> memory_;
};

struct SubjectKind {
    std::string name;
    std::function<std::unique_ptr<Subject>(Loop&)> make;
};

/// All kinds of operations that can wait. Over the simulated kernel when one lives.
const std::vector<SubjectKind>& subject_kinds();

}  // namespace berth::test
