// SPDX-License-Identifier: Apache-2.0
#pragma once

// What src/net keeps for each loop: used writes and empty queues, to be used again.

#include "src/loop/loop_state.h"

#include <berth/operation.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace berth::internal {

class WriteQueue;

/// One owning send.
class OwnedWrite final : public SendOperation {
public:
    explicit OwnedWrite(Completion completion) noexcept : SendOperation(completion) {
        // Its completion only frees memory: nobody waits for it.
        keeps_alive = false;
    }

    WriteQueue* queue = nullptr;
    Lent lent;
    std::vector<std::byte> copy;
    OwnedWrite* next_free = nullptr;
};

class NetExtension final : public LoopExtension {
public:
    ~NetExtension() override;

    /// Null when there is no memory.
    OwnedWrite* take_write(OperationState::Completion completion) noexcept;
    void put_back(OwnedWrite& write) noexcept;
    /// Null when there is none.
    WriteQueue* take_queue() noexcept;
    /// One that is as new.
    void put_back(WriteQueue& queue) noexcept;

private:
    /// A used write keeps no more memory than this for the next copy.
    static constexpr std::size_t kMostKept = 16 * 1024;

    OwnedWrite* free_ = nullptr;
    WriteQueue* free_queues_ = nullptr;
};

}  // namespace berth::internal
