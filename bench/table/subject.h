// SPDX-License-Identifier: Apache-2.0
#pragma once

// An allocator under measurement. The measured path is a whole batch, so that the indirect call
// costs nothing per pair and is the same for all.

#include "src/base/random.h"

#include <berth/error.h>
#include <berth/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace berth::bench {

struct PairCount {
    std::uint64_t succeeded = 0;
    std::uint64_t failed = 0;
};

class Subject {
public:
    virtual ~Subject() = default;
    /// Takes a port and gives it back, `count` times. Any thread.
    virtual PairCount take_and_release(unsigned count) = 0;
    /// Takes a port and keeps it; index = port − range.first. One thread at a time.
    virtual std::optional<std::uint32_t> take() = 0;
    virtual void release(std::uint32_t index) = 0;
};

/// A subject from a model with `take(RandomStream&)` and `release(index)`.
template <class Model>
class ModelSubject final : public Subject {
public:
    explicit ModelSubject(std::uint32_t count) : model_(count) {}

    PairCount take_and_release(unsigned count) override {
        PairCount done;
        for (unsigned pair = 0; pair < count; ++pair) {
            if (const auto index = model_.take(internal::thread_random())) {
                model_.release(*index);
                ++done.succeeded;
            } else {
                ++done.failed;
            }
        }
        return done;
    }
    std::optional<std::uint32_t> take() override { return model_.take(internal::thread_random()); }
    void release(std::uint32_t index) override { model_.release(index); }

private:
    Model model_;
};

/// `allocator` is one of table_allocators(). All ports of `range` are free.
Result<std::unique_ptr<Subject>> make_subject(std::string_view allocator, PortRange range);

}  // namespace berth::bench
