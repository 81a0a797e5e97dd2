// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel's port search as a model in user space: sockets are nodes as large as the kernel's, in
// hash chains, so that a walk costs a cache miss per socket as it does there. Where the kernel
// takes a spin lock with preemption off the models wait in the kernel instead: a spinner in user
// space would burn the time slice of the thread it waits for.

#include "bench/history/model_socket.h"
#include "src/base/random.h"

#include <berth/socket.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace berth::bench {

/// What one bind needs beside the table.
struct Search {
    internal::RandomStream& random;
    /// Once true a search ends early and fails; a full search can outlast a round by seconds.
    const std::atomic<bool>& is_stopped;

    bool must_stop() const noexcept { return is_stopped.load(std::memory_order_relaxed); }
};

/// open, bind, close and fill from any thread that is inside a ModelThread.
class PortModel {
public:
    explicit PortModel(PortRange range) noexcept : range_(range) {}
    virtual ~PortModel() = default;
    PortModel(const PortModel&) = delete;
    PortModel& operator=(const PortModel&) = delete;

    PortRange range() const noexcept { return range_; }

    /// A socket without a port; the model's until close().
    virtual ModelSocket* open() { return new ModelSocket; }
    /// Gives the socket a port of the model's choice; false when the search found none or was
    /// stopped.
    virtual bool bind(ModelSocket& socket, Search& search) = 0;
    /// Gives the port back, if there is one, and deletes the socket.
    virtual void close(ModelSocket* socket) = 0;
    /// A socket on every port of the range, in no order. No port is taken yet.
    virtual std::vector<ModelSocket*> fill();

    virtual void begin_thread() {}
    virtual void end_thread() {}

protected:
    /// bind() to a port that is known to be free.
    virtual void bind_free_port(ModelSocket& socket, std::uint16_t port) = 0;

private:
    PortRange range_;
};

/// The calling thread uses the model.
class ModelThread {
public:
    explicit ModelThread(PortModel& model) : model_(model) { model_.begin_thread(); }
    ~ModelThread() { model_.end_thread(); }
    ModelThread(const ModelThread&) = delete;
    ModelThread& operator=(const ModelThread&) = delete;

private:
    PortModel& model_;
};

}  // namespace berth::bench
