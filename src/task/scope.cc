// SPDX-License-Identifier: Apache-2.0
#include <berth/scope.h>

#include "src/base/assert.h"

#include <utility>

namespace berth {
namespace {

/// A task of a scope.
class Child final : public internal::Branch {
public:
    explicit Child(Task<void> task) noexcept : Branch(&Child::ended), task_(std::move(task)) {}

    static void* operator new(std::size_t size) noexcept { return internal::allocate_frame(size); }
    static void operator delete(void* child, std::size_t size) noexcept {
        internal::free_frame(child, size);
    }

    Task<void>& task() noexcept { return task_; }

private:
    ~Child() = default;
    static void ended(internal::Branch& branch) noexcept { delete static_cast<Child*>(&branch); }

    Task<void> task_;
};

}  // namespace

Scope::~Scope() {
    BERTH_ASSERT(size() == 0 && "a scope goes before its tasks have ended: join() it first");
}

void Scope::spawn(Task<void> task) noexcept {
    auto* child = new Child(std::move(task));
    internal::TaskAccess::start(join_, *child, child->task());
}

Task<void> Scope::join() {
    join_.enter(co_await internal::ContextOfCaller());
    co_await join_;
}

}  // namespace berth
