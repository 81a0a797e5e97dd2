// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the engine keeps for each descriptor, and how a completion finds its way back to it.

#include "src/engine/engine.h"
#include "src/engine/io_uring/buffer_pool.h"

#include <berth/operation.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace berth::internal {

/// Whose a completion is: the low three bits of user_data. A request of one operation carries the
/// operation's address, and the operation stays until that request has completed. A request of a
/// socket carries its handle, so that one that outlives its socket is recognised.
///
///      63       58 57    55 54             23 22            3 2   0
///     │     0     │ target │   generation    │     index     │ tag │    of a socket
///     │                address of the operation              │ tag │    of an operation
enum class RequestTag : std::uint8_t {
    operation,         // the operation itself
    receive,           // a socket's receive into provided buffers
    accept,            // a socket's accept of many connections
    send,              // a socket's send of all that is queued
    cancel_operation,  // the cancellation of an operation
    cancel_request,    // the cancellation of a socket's request, `target`
    wake,
    all,  // as a target: every request on the descriptor; otherwise nobody's
};

/// Of a request whose completion is of no interest.
inline constexpr auto kIgnored = static_cast<std::uint64_t>(RequestTag::all);

struct RequestName {
    RequestTag tag;
    RequestTag target;
    SlotHandle handle;
};

inline std::uint64_t user_data_of(const Operation& operation, RequestTag tag) noexcept {
    static_assert(alignof(Operation) >= 8);
    return reinterpret_cast<std::uint64_t>(&operation) | static_cast<std::uint64_t>(tag);
}

inline std::uint64_t user_data_of(SlotHandle handle, RequestTag tag,
                                  RequestTag target = RequestTag::operation) noexcept {
    return static_cast<std::uint64_t>(tag) | std::uint64_t{handle.index} << 3 |
           std::uint64_t{handle.generation} << 23 | static_cast<std::uint64_t>(target) << 55;
}

inline RequestTag tag_of(std::uint64_t user_data) noexcept {
    return static_cast<RequestTag>(user_data & 7);
}

inline Operation& operation_of(std::uint64_t user_data) noexcept {
    // The kernel carries a number. NOLINTNEXTLINE(performance-no-int-to-ptr)
    return *reinterpret_cast<Operation*>(user_data & ~std::uint64_t{7});
}

inline RequestName name_of(std::uint64_t user_data) noexcept {
    return {tag_of(user_data),
            static_cast<RequestTag>(user_data >> 55 & 7),
            {static_cast<std::uint32_t>(user_data >> 3 & 0xfffff),
             static_cast<std::uint32_t>(user_data >> 23)}};
}

/// The events of a poll as an entry has them.
inline std::uint32_t poll_mask(short events) noexcept {
    const std::uint32_t mask = static_cast<std::uint16_t>(events);
    return std::endian::native == std::endian::big ? mask << 16 : mask;
}

// Operation::engine_word: these bits, and from bit 8 on the number of its message block plus one.
inline constexpr std::uint32_t kInFlight = 1U << 0;    // the kernel works for it: the list's head
inline constexpr std::uint32_t kPolls = 1U << 1;       // ... by waiting until it can go on
inline constexpr std::uint32_t kInBatch = 1U << 2;     // part of its socket's send under way
inline constexpr std::uint32_t kCancelling = 1U << 3;  // its cancellation is under way
inline constexpr std::uint32_t kFinished = 1U << 4;    // has its result, but is being cancelled

/// Connections that were accepted before anybody asked.
struct AcceptQueue {
    std::vector<int> descriptors;
    std::size_t taken_count = 0;

    std::size_t size() const noexcept { return descriptors.size() - taken_count; }
};

struct alignas(64) RingSlot {
    /// So many short receives in a row, and a stream moves little.
    static constexpr std::uint8_t kMostShortRun = 3;

    std::uint32_t generation = 0;
    std::uint32_t next_free = 0;
    std::uint32_t index = 0;
    int fd = -1;
    OperationList reads;          // in the order submitted; the head may be in flight
    OperationList writes;         // likewise; the first `batch_count` are in the send under way
    OperationList polls;          // in no order
    std::uint32_t in_flight = 0;  // requests whose last completion has not come

    // Receiving.
    BufferQueue received;
    int end = 0;  // 0: of the stream, or an empty datagram; else -errno; after `received`
    bool has_end : 1 = false;
    bool is_receiving : 1 = false;         // a receive into provided buffers is in flight
    bool is_multishot : 1 = false;         // ... that goes on by itself
    bool is_ending_receive : 1 = false;    // ... and is being cancelled
    bool receives_into_large : 1 = false;  // ... takes large buffers
    bool prefers_large : 1 = false;        // the next one will; of a stream: see is_bulk()
    bool is_receive_poll : 1 = false;      // ... no receive but a poll: the stream is read by hand
    bool has_untried : 1 = false;          // its first receive is on the ready list, to be tried
    bool is_untried_over : 1 = false;      // ... and is cancelled if nothing is there
    bool is_postponed : 1 = false;         // in the receiver's list: sends are to go out before
    bool is_starved : 1 = false;           // waits for buffers, in the receiver's list
    bool is_heavy : 1 = false;             // has much that nobody asks for, likewise
    bool is_likely_empty : 1 = false;      // the last receive left nothing behind
    // Accepting.
    bool is_accepting : 1 = false;
    bool is_ending_accept : 1 = false;
    bool is_accept_poll : 1 = false;     // ... by waiting until there is a connection
    bool must_poll_accept : 1 = false;   // descriptors had run out
    bool has_polled_accept : 1 = false;  // there was a connection when the accept was armed
    bool has_new_accepts : 1 = false;    // in the acceptor's list
    // Sending.
    bool is_sending : 1 = false;         // a batch is in flight
    bool is_silent : 1 = false;          // ... that completes only when it fails
    bool is_ending_send : 1 = false;     // ... and is being cancelled
    bool must_wait_to_send : 1 = false;  // the kernel had no room
    bool is_write_broken : 1 = false;    // a send failed, or went out in part
    bool is_dirty : 1 = false;           // has something to send, in the sender's list
    // Ending.
    bool is_detached : 1 = false;
    bool is_to_close : 1 = false;
    bool is_left : 1 = false;        // the engine is shut down; its owner has still to let go
    bool is_ending_all : 1 = false;  // everything in flight is being cancelled
    bool was_made_blocking : 1 = false;

    std::uint8_t full_run = 0;   // small buffers filled one after the other
    std::uint8_t short_run = 0;  // receives by hand that a small buffer would have done for
    std::uint8_t cancel_tries = 0;
    std::uint8_t lost_errno = 0;     // what broke the connection, told to a send and nobody else
    std::uint16_t ending_reads = 0;  // have their bytes, but complete only when their cancellation
                                     // has: those behind them must not overtake them
    std::uint16_t batch_count = 0;
    std::uint32_t send_position = 0;  // of a silent batch in the submissions
    DescriptorKind kind = DescriptorKind::other;
    std::unique_ptr<AcceptQueue> accepted;
    CloseOperation* closing = nullptr;

    SlotHandle handle() const noexcept { return {index, generation}; }
    bool has_received() const noexcept { return !received.is_empty() || has_end; }
    /// Moves so much that it is read by plain receives.
    bool is_bulk() const noexcept { return prefers_large && is_stream(kind); }
};
static_assert(sizeof(RingSlot) <= 128);

}  // namespace berth::internal
