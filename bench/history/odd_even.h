// SPDX-License-Identifier: Apache-2.0
#pragma once

// TCP since Linux 4.6 (commit ea8add2b1903): a random odd offset, then every second port through
// the whole range; only when all of those are taken the even ones, which connect() prefers, in the
// same way. Each port is a bind bucket in a hash chain with a lock, and each bucket knows its
// sockets. Above half full every search first walks one half of the range.

#include "bench/history/chain_lock.h"
#include "bench/history/port_model.h"

#include <vector>

namespace berth::bench {

class OddEven final : public PortModel {
public:
    explicit OddEven(PortRange range) : PortModel(range), slots_(kSlotCount) {}

    bool bind(ModelSocket& socket, Search& search) override;
    void close(ModelSocket* socket) override;

protected:
    void bind_free_port(ModelSocket& socket, std::uint16_t port) override;

private:
    static constexpr std::uint32_t kSlotCount = 65'536;  // as on every host with enough memory

    struct alignas(64) Bucket {
        Bucket* next = nullptr;
        ModelSocket* owner = nullptr;
        std::uint16_t port = 0;
    };
    struct alignas(16) Slot {
        Bucket* first = nullptr;
        ChainLock lock;

        bool has_conflict(std::uint16_t port) const noexcept;
        void add(ModelSocket& socket, std::uint16_t port);
        void remove(std::uint16_t port) noexcept;
    };

    bool search_parity(ModelSocket& socket, std::uint32_t offset, Search& search);

    std::vector<Slot> slots_;  // each protected by its lock
};

}  // namespace berth::bench
