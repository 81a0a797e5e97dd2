// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is behind a Resolver: lookups that go on, lookups to be used again, and operations that wait
// for one.
//
//            start                  a lookup is idle               answer
//   operation ─────▶ queue ───────────────────────────▶ lookup ─────────────▶ ready
//                      └── cancel, deadline: the loop takes it off ──┘
//
// The loop knows a waiting operation by the list that it is on, and takes it off by itself when it
// is cancelled; its completion then tells the lookup.

#include "src/loop/loop_state.h"
#include "src/net/resolver/ares_config.h"
#include "src/net/resolver/lookup.h"

#include <berth/resolver.h>

#include <memory>
#include <vector>

namespace berth::internal {

class ResolverState {
public:
    static Result<std::unique_ptr<ResolverState>> create(LoopState& loop,
                                                         const ResolverOptions& options);
    ~ResolverState();
    ResolverState(const ResolverState&) = delete;
    ResolverState& operator=(const ResolverState&) = delete;

    Start start(ResolveOperation& operation, Deadline deadline);
    AddressOrder order() const noexcept { return order_; }
    /// `lookup` has its answer, which is delivered if somebody waits for it, and takes the next.
    void take_back(Lookup& lookup) noexcept;

private:
    ResolverState(LoopState& loop, AresConfig config, const ResolverOptions& options) noexcept
        : loop_(loop),
          config_(std::move(config)),
          order_(options.order),
          uses_hosts_file_(options.uses_hosts_file),
          concurrency_(options.concurrency) {}
    void add_loopback(ResolveOperation& operation) const;
    bool answer_at_once(ResolveOperation& operation) const;
    Result<Lookup*> idle_lookup();
    Start finish(ResolveOperation& operation, int result) noexcept;
    void start_next(Lookup& lookup) noexcept;

    LoopState& loop_;
    AresConfig config_;
    AddressOrder order_;
    bool uses_hosts_file_;
    std::size_t concurrency_;
    OperationList queued_;
    OperationList active_;
    std::vector<std::unique_ptr<Lookup>> lookups_;
    std::vector<Lookup*> idle_;
};

}  // namespace berth::internal
