// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace berth::bench {

/// As large as a UDP socket of the time (13 cache lines); what a chain walk reads lies in the
/// first line, as it does there (struct sock_common).
struct alignas(64) ModelSocket {
    std::atomic<ModelSocket*> next{nullptr};
    std::atomic<ModelSocket*>* link = nullptr;  // what points here; protected by the chain's lock
    std::atomic<std::uint16_t> port{0};         // 0: not bound
    std::array<std::byte, 12 * 64> rest;
};
static_assert(sizeof(ModelSocket) == 13 * 64);

}  // namespace berth::bench
