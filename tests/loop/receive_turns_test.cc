// SPDX-License-Identifier: Apache-2.0

// Whose turn it is when several streams have something to read: one goes on for a while when its
// completion asks for more, another does not overtake those that have waited.

#include "src/engine/simulation/simulation.h"

#include <berth/loop.h>
#include <berth/stream.h>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth {
namespace {

/// Gives back what it gets, and adds its name to those that have had their turn.
class NamedReceive final : public ReceiveLentOperation {
public:
    NamedReceive(std::string& turns, char name, std::function<void()> and_then = {})
        : ReceiveLentOperation(&NamedReceive::run),
          turns_(turns),
          name_(name),
          then_(std::move(and_then)) {
        always_completes = true;
    }

private:
    static void run(Operation& operation) noexcept {
        auto& self = static_cast<NamedReceive&>(operation);
        self.data.give_back();
        self.turns_ += self.name_;
        if (const std::function<void()> then = std::move(self.then_)) {
            then();  // this may be its end
        }
    }

    std::string& turns_;
    char name_;
    std::function<void()> then_;
};

struct Connection {
    Stream here;
    Stream there;
};

class ReceiveTurnsTest : public testing::Test {
protected:
    Connection connect() {
        const auto [here, there] = simulation_.make_socket_pair(SOCK_STREAM);
        return {Stream::adopt(loop_, Descriptor(here)).value(),
                Stream::adopt(loop_, Descriptor(there)).value()};
    }
    /// More is there than a receive takes.
    void fill(Connection& connection) {
        ASSERT_TRUE(connection.there.write(std::vector<std::byte>(150'000)).has_value());
    }
    void run() {
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(loop_.run_once(within(std::chrono::nanoseconds(0))).has_value());
        }
    }

    internal::Simulation simulation_;
    Loop loop_ = Loop::create({.engine = EngineKind::simulated}).value();
    std::string turns_;
};

TEST_F(ReceiveTurnsTest, TheNextReceiveOfTheSameStreamGoesOnAtOnce) {
    Connection a = connect();
    Connection b = connect();
    NamedReceive more(turns_, 'A');
    NamedReceive first(turns_, 'a', [&] { a.here.receive(more); });
    NamedReceive other(turns_, 'b');
    a.here.receive(first);
    b.here.receive(other);
    fill(a);
    fill(b);
    run();
    EXPECT_EQ(turns_, "aAb");
}

// What tells the streams apart must not be where their operations lie: memory is used again.
TEST_F(ReceiveTurnsTest, AnotherStreamWhoseOperationLiesInTheSamePlaceDoesNotOvertake) {
    Connection a = connect();
    Connection b = connect();
    Connection c = connect();
    NamedReceive before(turns_, 'c');
    c.here.receive(before);
    fill(c);
    run();
    std::optional<NamedReceive> place;
    place.emplace(turns_, 'a', [&] {
        place.emplace(turns_, 'C');
        c.here.receive(*place);
    });
    NamedReceive other(turns_, 'b');
    a.here.receive(*place);
    b.here.receive(other);
    fill(a);
    fill(b);
    run();
    EXPECT_EQ(turns_, "cabC");
}

}  // namespace
}  // namespace berth
