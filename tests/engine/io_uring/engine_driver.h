// SPDX-License-Identifier: Apache-2.0
#pragma once

// Drives an io_uring engine as a loop would, one step at a time.

#include "src/engine/io_uring/io_uring_engine.h"
#include "src/engine/wait_time.h"

#include <berth/descriptor.h>
#include <berth/operation.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::internal {

class Driver;

/// An operation that counts its completions.
template <class Op>
class Counted : public Op {
public:
    explicit Counted(Driver& driver) : Op(&Counted::done), driver_(driver) {}
    ~Counted();

    bool has_completed() const noexcept { return completion_count > 0; }

    int completion_count = 0;
    std::function<void(Counted&)> then;

private:
    static void done(Operation& operation) noexcept {
        auto& self = static_cast<Counted&>(operation);
        ++self.completion_count;
        if (self.then) {
            self.then(self);
        }
    }

    Driver& driver_;
};

class Driver {
public:
    explicit Driver(const IoUringOptions& options = {});
    ~Driver();

    IoUringEngine& engine() noexcept { return *engine_; }
    Core& core() noexcept { return engine_->core(); }
    ReadyList& ready() noexcept { return ready_; }
    LoopStatistics statistics() const noexcept;

    /// A stream counts as one that has shown that it moves little: it receives into buffers.
    SlotHandle attach(int fd, DescriptorKind kind) noexcept;
    /// Submits; what is done at once counts as a completion too.
    template <class Op>
    Start submit(Counted<Op>& operation, SlotHandle slot) {
        operation.slot = slot;
        operation.cancel_reason = 0;
        const Start start = engine_->submit(operation);
        if (start == Start::done) {
            operation.complete(operation);
        }
        return start;
    }
    void cancel(Operation& operation, int reason = -ECANCELED);
    void detach(SlotHandle slot, Detach how = Detach::close);
    void detach(SlotHandle slot, Detach how, Counted<CloseOperation>& closing);

    /// One turn without waiting. Answers how many operations have completed.
    int turn();
    /// One turn that waits for an event, at most for 10 s.
    int turn_waiting();
    int run_ready();
    /// False when it has not come true within 20 s.
    [[nodiscard]] bool run_until(const std::function<bool()>& is_true);
    template <class Op>
    [[nodiscard]] bool run_until(const Counted<Op>& operation) {
        return run_until([&operation] { return operation.has_completed(); });
    }

private:
    ReadyList ready_;
    std::unique_ptr<IoUringEngine> engine_;
};

template <class Op>
Counted<Op>::~Counted() {
    if (this->stage == OperationStage::waiting) {
        driver_.cancel(*this);
        EXPECT_TRUE(driver_.run_until([this] { return this->stage == OperationStage::idle; }));
    }
    this->stage = OperationStage::idle;
}

/// Two connected sockets: `near` is the engine's, `far` the test's.
struct SocketPair {
    Descriptor near;
    Descriptor far;
};
SocketPair unix_pair(int type = 1 /* SOCK_STREAM */);
SocketPair tcp_pair();
SocketPair udp_pair();
struct Pipe {
    Descriptor out;
    Descriptor in;
};
Pipe make_pipe(int flags = 0);
/// A TCP listener on a port of the kernel's choice.
Descriptor tcp_listener();
Endpoint local_endpoint(int fd);

std::span<const std::byte> bytes_of(std::string_view text);
std::string text_of(std::span<const std::byte> bytes);
/// The bytes of an endless pattern from `offset` on, which no shift of itself equals.
std::vector<std::byte> pattern(std::size_t offset, std::size_t size);
bool is_pattern(std::span<const std::byte> bytes, std::size_t offset);
/// Reads up to `size` bytes from a blocking descriptor, until the end.
std::vector<std::byte> read_all(int fd, std::size_t size);
void write_all(int fd, std::span<const std::byte> bytes);
void set_send_buffer(int fd, int size);

}  // namespace berth::internal
