// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the loop asks of a way to wait. An engine carries out operations on descriptors, tells the
// loop of those that have finished by pushing them to the ready list, and sleeps. It calls no
// completion itself, knows no timers, and is used by one thread, but for wake().

#include "src/engine/operation_list.h"

#include <berth/error.h>
#include <berth/loop.h>
#include <berth/operation.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace berth::internal {

/// What a descriptor is, as far as engines care.
enum class DescriptorKind : std::uint8_t {
    stream,  // a connected or connecting stream socket
    // The same of the unix family: a receive ends where descriptors were sent along, with more
    // behind it.
    unix_stream,
    datagram,  // a datagram or seqpacket socket
    listener,
    other,  // a pipe, terminal, regular file, or a foreign descriptor: poll, read and write only
};

constexpr DescriptorKind stream_kind(bool is_unix) noexcept {
    return is_unix ? DescriptorKind::unix_stream : DescriptorKind::stream;
}
constexpr bool is_stream(DescriptorKind kind) noexcept {
    return kind == DescriptorKind::stream || kind == DescriptorKind::unix_stream;
}

/// How an engine lets go of a descriptor.
enum class Detach : std::uint8_t {
    close,  // it is berth's own: close it when nothing of it is in flight
    keep,   // it goes on living elsewhere
};

/// Where an engine puts what has finished: result and stage are set, the operation is on no other
/// list.
class ReadyList {
public:
    void push(Operation& operation, int result) noexcept {
        operation.result = result;
        operation.stage = OperationStage::ready;
        list_.push_back(operation);
    }
    /// Takes back one that is on this list, or amid any other.
    void remove(Operation& operation) noexcept {
        last_untried_ = last_untried_ == &operation ? nullptr : last_untried_;
        list_.remove(operation);
    }
    /// For one that is tried when its turn comes: Engine::attempt_now() then says how it ended.
    void push_untried(Operation& operation) noexcept {
        operation.needs_attempt = true;
        push(operation, -EAGAIN);
        last_untried_ = &operation;
    }
    /// Takes the operation that was the last to be pushed untried, if it is still here and of that
    /// socket; null otherwise.
    Operation* take_last_untried(SlotHandle slot) noexcept {
        if (last_untried_ == nullptr || last_untried_->slot != slot) {
            return nullptr;
        }
        list_.remove(*last_untried_);
        return std::exchange(last_untried_, nullptr);
    }
    bool is_empty() const noexcept { return list_.is_empty(); }
    void append(OperationList operations) noexcept { list_.append(operations); }
    OperationList take_all() noexcept {
        last_untried_ = nullptr;
        return list_.take_all();
    }

private:
    OperationList list_;
    Operation* last_untried_ = nullptr;
};

class Engine {
public:
    explicit Engine(ReadyList& ready) noexcept : ready_(ready) {}
    virtual ~Engine() = default;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    virtual EngineKind kind() const noexcept = 0;

    /// Makes a descriptor known. The engine may change its O_NONBLOCK (not of `other`: that may be
    /// shared with other processes). No system call is needed for a descriptor that berth opened.
    /// An invalid handle, and errno, when there is no memory (ENOMEM) or no room (EMFILE).
    virtual SlotHandle attach(int fd, DescriptorKind kind) noexcept = 0;
    /// The mode that this engine wants sockets opened in: SOCK_NONBLOCK or 0.
    virtual int socket_mode() const noexcept { return 0; }
    /// `slot` was opened in that mode: it need not be set.
    virtual void note_mode(SlotHandle) noexcept {}
    /// Its operations complete with -ECANCELED (those that have finished keep their result), no
    /// later event of it is ever taken for another socket's. `closing` may be null; otherwise it
    /// completes last, when the descriptor is closed. The handle is invalid from now on.
    virtual void detach(SlotHandle slot, Detach how, CloseOperation* closing) noexcept = 0;

    /// Starts `operation` on the socket it names. Done: its result is set and its stage is idle.
    /// Pending: its stage is waiting, and it goes to the ready list later. EBADF when its socket is
    /// gone.
    virtual Start submit(Operation& operation) noexcept = 0;
    /// Hands `bytes` to the kernel now, where that is how this engine sends and nothing of the
    /// socket waits to be sent before: how many it took, or -errno; -EAGAIN for "submit it".
    virtual int send_now(SlotHandle, std::span<const std::byte>) noexcept { return -EAGAIN; }
    /// Tries an operation that was pushed untried. False: it was not ready after all, and waits
    /// again.
    virtual bool attempt_now(Operation&) noexcept { return true; }
    /// An operation that may have been pushed untried is taken from the ready list for good.
    virtual void forget_untried(Operation&) noexcept {}
    /// Ends an operation that is waiting: it goes to the ready list with its cancel_reason, as soon
    /// as the kernel has let go of it, unless a result comes first.
    virtual void cancel(Operation& operation) noexcept = 0;

    /// As cancel() with -ECANCELED for everything that waits for input on `slot`.
    virtual void cancel_input(SlotHandle) noexcept {}

    /// Appends what was received on `slot` before anybody asked for it, and receives no more.
    /// Operations that wait for input are cancelled. **Errors:** std::bad_alloc.
    virtual void take_unread(SlotHandle slot, std::vector<std::byte>&) { cancel_input(slot); }

    /// Ends all operations: they are on the ready list afterwards. No handle is valid any more, but
    /// for detach(): the descriptors are their owners', who may close them until the engine goes.
    virtual void shut_down() noexcept = 0;

    /// Sends off what was submitted, then waits until something is ready, wake() is called, a
    /// signal comes, or CLOCK_MONOTONIC reaches `deadline_ns` (0: does not wait; ~0: no deadline).
    /// Answers 0, or the errno that it cannot go on with.
    virtual int wait(std::uint64_t deadline_ns) noexcept = 0;
    /// Makes a wait() that is going on, or the next one, return. Any thread.
    virtual void wake() noexcept = 0;

    /// Readable when wait() would find something. For loops that are embedded in others.
    /// **Errors:** descriptors_exhausted.
    virtual Result<int> descriptor() = 0;

    /// wait_count, interest_count, submission_count, wake_count and socket_count.
    virtual void add_to(LoopStatistics& statistics) const noexcept = 0;

protected:
    ReadyList& ready_;
};

/// The error says why an engine cannot be had here.
using EngineResult = Result<std::unique_ptr<Engine>>;

EngineResult make_select_engine(ReadyList& ready);
EngineResult make_poll_engine(ReadyList& ready);
EngineResult make_epoll_engine(ReadyList& ready);
EngineResult make_io_uring_engine(ReadyList& ready);
/// **Errors:** unsupported when no simulation is going on.
EngineResult make_simulated_engine(ReadyList& ready);

}  // namespace berth::internal
