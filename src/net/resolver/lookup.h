// SPDX-License-Identifier: Apache-2.0
#pragma once

// A c-ares channel that looks up one name at a time. A channel closes its sockets with its last
// query, so each lookup has fresh ones, and cancelling everything of a channel, which is all that
// c-ares can cancel, cancels one lookup. Channels are used again: each takes about 75 KiB.

#include "src/loop/loop_state.h"
#include "src/net/resolver/ares_config.h"
#include "src/net/resolver/query_sockets.h"

#include <berth/resolver.h>
#include <berth/timer.h>

#include <memory>
#include <optional>
#include <vector>

namespace berth::internal {

class ResolverState;

class Lookup final : public SocketUser {
public:
    static Result<std::unique_ptr<Lookup>> open(ResolverState& owner, LoopState& loop,
                                                const AresConfig& config);
    ~Lookup();
    Lookup(const Lookup&) = delete;
    Lookup& operator=(const Lookup&) = delete;

    /// Looks up what `operation` asks for. The answer may be there already.
    void begin(ResolveOperation& operation);
    bool has_answer() const noexcept { return has_answer_; }
    /// Puts the answer into its operation and lets go of that. Answers the result.
    int deliver() noexcept;
    /// The operation is no longer interested.
    void abandon() noexcept;
    ResolveOperation* operation() const noexcept { return operation_; }
    /// Lets go of the operation, which is null when there is none.
    ResolveOperation* let_go() noexcept;

    void on_socket_ready(int read_fd, int write_fd) noexcept override;

private:
    class Timeout final : public TimerOperation {
    public:
        explicit Timeout(Lookup& of) noexcept : TimerOperation(&Lookup::on_timeout), lookup(of) {
            keeps_alive = false;
        }
        Lookup& lookup;
    };

    Lookup(ResolverState& owner, LoopState& loop) noexcept
        : owner_(owner), loop_(loop), sockets_(loop, *this), timeout_(*this) {}
    static void on_timeout(Operation& operation) noexcept;
    static void on_answer(void* self, int status, int timeouts, ares_addrinfo* answer) noexcept;
    void take(const ares_addrinfo& answer);
    void put_first(Family family);
    Error error_of(int status) const noexcept;
    void arm_timeout() noexcept;
    void settle() noexcept;

    ResolverState& owner_;
    LoopState& loop_;
    ResolveOperation* operation_ = nullptr;
    bool has_answer_ = false;
    std::vector<Address> addresses_;
    std::optional<Error> failure_;
    QuerySockets sockets_;
    Timeout timeout_;
    AresChannel channel_;
};

}  // namespace berth::internal
