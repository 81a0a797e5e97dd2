// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/operation.h>

#include <functional>

namespace berth::test {

/// An operation that counts its completions, and that always completes from the loop.
template <class Op>
class Watched final : public Op {
public:
    explicit Watched(std::function<void()> and_then = {})
        : Op(&Watched::run), then(std::move(and_then)) {
        this->always_completes = true;
    }

    unsigned completion_count = 0;
    std::function<void()> then;

private:
    static void run(Operation& operation) noexcept {
        auto& self = static_cast<Watched&>(static_cast<Op&>(operation));
        ++self.completion_count;
        if (self.then) {
            self.then();
        }
    }
};

}  // namespace berth::test
