// SPDX-License-Identifier: Apache-2.0
#pragma once

// Coroutines: a server that echoes, and callers that talk to it under timeouts and in races, in
// scopes that are cancelled at any time. What comes back is what was said.

#include "tests/stress/tracked.h"

#include <berth/listener.h>
#include <berth/scope.h>
#include <berth/task.h>

#include <memory>
#include <vector>

namespace berth::test::stress {

class Caller final : public Actor {
public:
    explicit Caller(World& world);

    void act() override;
    void wind_down() override;
    void check() override;

private:
    Task<void> serve();
    Task<void> echo(Stream client);
    Task<void> talk(Endpoint server);
    Task<Result<std::size_t>> hear(Stream& stream, std::span<const std::byte> said);
    Task<Result<void>> race(Stream& stream, std::span<const std::byte> said);

    Listener listener_;
    Endpoint here_;
    // A scope is used again only when it is empty.
    std::vector<std::unique_ptr<Scope>> scopes_;
    std::unique_ptr<Scope> server_;
    std::size_t running_count_ = 0;
    bool is_closed_ = false;
};

}  // namespace berth::test::stress
