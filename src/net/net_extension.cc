// SPDX-License-Identifier: Apache-2.0
#include "src/net/net_extension.h"

#include "src/net/write_queue.h"

#include <new>

namespace berth::internal {

NetExtension::~NetExtension() {
    while (free_ != nullptr) {
        const std::unique_ptr<OwnedWrite> write(std::exchange(free_, free_->next_free));
    }
    while (WriteQueue* queue = take_queue()) {
        delete queue;
    }
}

WriteQueue* NetExtension::take_queue() noexcept {
    return free_queues_ == nullptr ? nullptr
                                   : std::exchange(free_queues_, free_queues_->next_free_);
}

void NetExtension::put_back(WriteQueue& queue) noexcept {
    queue.next_free_ = std::exchange(free_queues_, &queue);
}

OwnedWrite* NetExtension::take_write(OperationState::Completion completion) noexcept {
    if (free_ == nullptr) {
        return new (std::nothrow) OwnedWrite(completion);
    }
    OwnedWrite* write = std::exchange(free_, free_->next_free);
    write->complete = completion;
    return write;
}

void NetExtension::put_back(OwnedWrite& write) noexcept {
    write.lent.give_back();
    write.copy.clear();
    if (write.copy.capacity() > kMostKept) {
        write.copy = {};
    }
    write.queue = nullptr;
    write.next_free = std::exchange(free_, &write);
}

}  // namespace berth::internal
