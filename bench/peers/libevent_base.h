// SPDX-License-Identifier: Apache-2.0
#pragma once

// libevent, used plainly: an event for each descriptor, added once and persistent, and receive and
// send as system calls. Bufferevents cost two epoll_ctl() and an ioctl() more for each message.

#include "bench/programs/program.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#include <memory>
#include <optional>

namespace berth::bench::libevent {

enum class Method : std::uint8_t { select, poll, epoll };
enum class UsedBy : std::uint8_t { one_thread, many_threads };

/// An event_base and why it was stopped.
class Base {
public:
    static Result<Base> open(Method method, UsedBy used_by = UsedBy::one_thread);

    event_base* get() const noexcept { return base_.get(); }

    /// Initializes and adds. `watch` must stay where it is until it is deleted or the base is gone.
    /// **Errors:** unsupported for a descriptor that the method cannot take.
    Result<void> add(event& watch, int fd, int what, event_callback_fn callback, void* argument);

    /// Until stop() or fail() in a callback, or until no event is left that was added; `flags` are
    /// EVLOOP_*.
    Result<void> run(int flags = 0);
    void stop() noexcept { ::event_base_loopbreak(base_.get()); }
    void fail(const Error& error) noexcept {
        failure_ = error;
        stop();
    }

private:
    struct Free {
        void operator()(event_base* base) const noexcept { ::event_base_free(base); }
    };
    explicit Base(event_base* base) noexcept : base_(base) {}
    Result<void> check(int fd) const;

    std::unique_ptr<event_base, Free> base_;
    std::optional<Error> failure_;
};

Result<void> transfer(TransferJob& job, Base base);
Result<void> echo(EchoJob& job, Base base);
Result<void> churn(ChurnJob& job, Base base);
Result<void> datagrams(DatagramsJob& job, Base base);
Result<void> wake(WakeJob& job, Base base);

}  // namespace berth::bench::libevent
