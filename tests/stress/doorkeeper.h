// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who listens, and makes an end of a stream of each connection. Whatever accept() meets, it is
// tried again later: the connections wait.

#include "tests/stress/tracked.h"

#include <berth/listener.h>

#include <array>
#include <memory>

namespace berth::test::stress {

class Doorkeeper final : public Actor {
public:
    explicit Doorkeeper(World& world);

    void act() override;
    void wind_down() override;

private:
    void open();
    void accept();
    void accepted();
    void welcome(int socket);
    void throw_away();

    struct Accept {
        explicit Accept(Doorkeeper& keeper)
            : operation(keeper.world_, keeper.is_closed_, [&keeper] { keeper.accepted(); }) {}

        std::array<int, 4> sockets{};
        Tracked<AcceptOperation> operation;
    };

    Listener listener_;
    bool is_closed_ = false;
    std::unique_ptr<Accept> accept_;
};

}  // namespace berth::test::stress
