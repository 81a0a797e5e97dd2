// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a simulated descriptor stands for. As inside the kernel, results are a count or minus
// errno, and readiness has two sides: poll() says what is so now (level), wake() tells watchers
// that something has changed (edge).

#include "src/engine/simulation/transfer.h"

#include <sys/epoll.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace berth::internal::simulated {

class File;
struct Kernel;

/// Whoever wants to know of changes; the epoll instances.
class Watcher {
public:
    virtual ~Watcher() = default;
    /// `events` as the kernel's wake-ups name them; 0: anything may have changed.
    virtual void on_wake(std::uint32_t events) = 0;
    /// The file has been closed. The watcher is forgotten already and may go.
    virtual void on_release() = 0;
};

inline constexpr std::uint32_t kReadable = EPOLLIN | EPOLLRDNORM;
inline constexpr std::uint32_t kWritable = EPOLLOUT | EPOLLWRNORM;
inline constexpr std::uint32_t kWakeReadable = EPOLLIN | EPOLLPRI | EPOLLRDNORM | EPOLLRDBAND;
inline constexpr std::uint32_t kWakeWritable = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;

class File : public std::enable_shared_from_this<File> {
public:
    explicit File(Kernel& kernel) noexcept : kernel_(kernel) {}
    virtual ~File() { forget_watchers(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    /// All EPOLL bits that hold now.
    virtual std::uint32_t poll() = 0;
    /// What a wait that a fault makes lie may claim.
    virtual std::uint32_t spurious_events() const { return EPOLLIN | EPOLLOUT; }
    virtual ssize_t read(Incoming& incoming) = 0;
    virtual ssize_t write(Outgoing& outgoing) = 0;
    /// pread() and pwrite().
    virtual ssize_t read_at(Incoming&, std::size_t /*offset*/) { return -ESPIPE; }
    virtual ssize_t write_at(Outgoing&, std::size_t /*offset*/) { return -ESPIPE; }
    /// False: epoll refuses it with EPERM.
    virtual bool can_be_watched() const { return true; }
    /// Whether a call may take a part of what it was given.
    virtual bool is_byte_stream() const { return true; }
    /// Bytes that could be read now; of datagrams, those of the first.
    virtual std::size_t unread_size() const { return 0; }
    /// Bytes that were written and have not arrived.
    virtual std::size_t unsent_size() const { return 0; }
    /// Whether break_connection() has something to break.
    virtual bool is_connection() const { return false; }
    /// The connection dies of `error` (ECONNRESET, ETIMEDOUT), and its peer of a reset.
    virtual void break_connection(int /*error*/) {}
    /// For messages to a person: "tcp 127.0.0.1:80 listening".
    virtual std::string describe() const = 0;

    /// The descriptor is closed: tells the watchers, and the protocol.
    void release();
    void add_watcher(Watcher& watcher) { watchers_.push_back(&watcher); }
    void remove_watcher(Watcher& watcher) { std::erase(watchers_, &watcher); }
    void wake(std::uint32_t events);
    /// A wake-up in a moment, after a call that a fault cut short: whoever waits for edges must
    /// learn that there is more.
    void wake_soon();

protected:
    virtual void on_close() {}

    Kernel& kernel_;

private:
    void forget_watchers();

    std::vector<Watcher*> watchers_;
};

}  // namespace berth::internal::simulated
