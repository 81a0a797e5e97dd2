// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two ends through which OpenSSL reads and writes ciphertext. It reads straight from memory
// that the caller lends, so that a received byte is copied once, into OpenSSL's record; and it
// writes into a CipherQueue.

#include "src/tls/cipher_queue.h"
#include "src/tls/openssl_handles.h"

#include <cstddef>
#include <span>

namespace berth::internal {

struct MemoryChannel {
    explicit MemoryChannel(CipherChunkPool& pool) noexcept : output(pool) {}

    std::span<const std::byte> input;  // lent; what OpenSSL has not taken yet
    CipherQueue output;
    // Why a write of OpenSSL's failed. It makes nothing of it when it was only a warning.
    bool is_output_full = false;
    bool is_out_of_memory = false;

    bool has_lost_output() const noexcept { return is_output_full || is_out_of_memory; }
};

/// A BIO over `channel`, which outlives it. Null when there is no memory.
BioHandle make_memory_bio(MemoryChannel& channel) noexcept;

}  // namespace berth::internal
