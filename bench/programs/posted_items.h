// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a WakeJob's items are posted with: an operation for each, as the job has memory for each, so
// that nothing is allocated while it runs.

#include "bench/programs/program.h"

#include <berth/loop.h>

#include <cstddef>
#include <memory>

namespace berth::bench {

/// Calls handle(item) on the loop's thread.
template <class Handle>
class PostedItems {
public:
    PostedItems(Loop& loop, const WakeJob& job, Handle handle)
        : loop_(loop),
          handle_(std::move(handle)),
          operations_(std::make_unique<ItemOperation[]>(job.count)) {}

    /// WakeJob::Post; the other thread.
    static void post(void* self, Posted& item) noexcept {
        auto& items = *static_cast<PostedItems*>(self);
        ItemOperation& operation = items.operations_[item.number];
        operation.items = &items;
        operation.item = &item;
        items.loop_.post(operation);
    }

private:
    struct alignas(64) ItemOperation : PostOperation {
        ItemOperation() noexcept : PostOperation(&run) {}

        static void run(Operation& operation) noexcept {
            auto& self = static_cast<ItemOperation&>(operation);
            self.items->handle_(*self.item);
        }

        PostedItems* items = nullptr;
        Posted* item = nullptr;
    };

    Loop& loop_;
    Handle handle_;
    std::unique_ptr<ItemOperation[]> operations_;
};

}  // namespace berth::bench
