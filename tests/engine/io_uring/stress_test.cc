// SPDX-License-Identifier: Apache-2.0

// Connections that do everything at random, against a model that knows only this: the bytes of the
// sends that went out, one behind the other, are what the other side receives, each operation
// completes once, and a cancelled receive takes nothing. BERTH_TEST_SEED replays a run.

#include "tests/engine/io_uring/engine_driver.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <optional>
#include <random>

namespace berth::internal {
namespace {

using Random = std::mt19937;

std::uint32_t seed_of_this_run() {
    const char* given = std::getenv("BERTH_TEST_SEED");
    const std::uint32_t seed = given != nullptr
                                   ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10))
                                   : std::random_device()();
    std::printf("replay with BERTH_TEST_SEED=%u and this test's --gtest_filter\n", seed);
    return seed;
}

std::size_t below(Random& random, std::size_t end) { return random() % end; }

/// A send, its bytes, and how they are cut into parts.
struct PatternSend {
    PatternSend(Driver& driver, Random& random, std::size_t offset)
        : start(offset), operation(driver) {
        const std::size_t most = below(random, 20) == 0 ? 300'000 : 3000;
        bytes = pattern(offset, below(random, most));
        if (below(random, 2) == 0) {
            operation.set(bytes);
            return;
        }
        for (std::size_t at = 0; at < bytes.size();) {
            const std::size_t size = std::min(bytes.size() - at, below(random, bytes.size() + 1));
            parts.push_back({bytes.data() + at, size});
            at += size;
        }
        operation.parts = parts;
        if (parts.empty()) {
            operation.single = {nullptr, 0};
        }
    }

    std::size_t start;
    std::vector<std::byte> bytes;
    std::vector<iovec> parts;
    Counted<SendOperation> operation;
};

/// One side of a connection.
class Side {
public:
    Side(Driver& driver, Random& random, Descriptor descriptor)
        : driver_(driver),
          random_(random),
          slot_(driver.attach(descriptor.release(), DescriptorKind::stream)) {}
    ~Side() { EXPECT_TRUE(is_closed_); }

    void send() {
        if (is_closed_ || waiting_sends() > 6) {
            return;
        }
        PatternSend& one = sends_.emplace_back(driver_, random_, offset_);
        one.operation.keeps_alive = below(random_, 2) == 0;
        offset_ += one.bytes.size();
        driver_.submit(one.operation, slot_);
    }

    void receive() {
        if (is_closed_ || lent_.size() + copied_.size() > 20) {
            return;
        }
        if (below(random_, 3) > 0) {
            auto& one = lent_.emplace_back(driver_);
            one.then = [this](auto& done) { take_lent(done); };
            driver_.submit(one, slot_);
        } else {
            auto& one = copied_.emplace_back(driver_, below(random_, 40'000));
            one.operation.then = [this, &one](auto& done) { take_copied(one, done); };
            one.operation.buffer = one.buffer;
            driver_.submit(one.operation, slot_);
        }
    }

    void poll() {
        if (is_closed_ || poll_.is_pending()) {
            return;
        }
        poll_.events = below(random_, 2) == 0 ? POLLIN : POLLOUT;
        driver_.submit(poll_, slot_);
    }

    void cancel_receive() {
        if (!lent_.empty()) {
            driver_.cancel(lent_.back());
        }
        if (!copied_.empty()) {
            driver_.cancel(copied_.front().operation, -ETIMEDOUT);
        }
    }
    void cancel_poll() { driver_.cancel(poll_); }
    void cancel_send() {
        if (!sends_.empty()) {
            driver_.cancel(sends_[below(random_, sends_.size())].operation);
        }
    }
    void give_back() {
        if (!kept_.empty()) {
            kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(below(random_, kept_.size())));
        }
    }
    void give_all_back() { kept_.clear(); }

    void close() {
        if (!is_closed_) {
            is_closed_ = true;
            driver_.detach(slot_);
        }
    }

    std::size_t waiting_sends() const {
        return static_cast<std::size_t>(std::ranges::count_if(
            sends_, [](const PatternSend& one) { return one.operation.is_pending(); }));
    }
    bool is_quiet() const {
        return waiting_sends() == 0 && std::ranges::none_of(lent_, &is_pending) &&
               std::ranges::none_of(copied_,
                                    [](const Copied& one) { return one.operation.is_pending(); }) &&
               !poll_.is_pending();
    }
    bool is_closed() const { return is_closed_; }
    bool has_broken() const {
        return std::ranges::any_of(sends_, [](const PatternSend& one) {
            return one.operation.result < 0 && one.operation.sent > 0;
        });
    }
    void forget_done() {
        std::erase_if(lent_, [](const auto& one) { return !one.is_pending(); });
        std::erase_if(copied_, [](const auto& one) { return !one.operation.is_pending(); });
    }

    /// What went out, as far as the operations say.
    std::vector<std::byte> sent() const {
        std::vector<std::byte> all;
        for (const PatternSend& one : sends_) {
            EXPECT_EQ(one.operation.completion_count, 1);
            if (one.operation.result >= 0) {
                EXPECT_EQ(one.operation.sent, one.bytes.size());
            }
            all.insert(all.end(), one.bytes.begin(),
                       one.bytes.begin() + static_cast<std::ptrdiff_t>(one.operation.sent));
        }
        return all;
    }
    const std::vector<std::byte>& received() const { return received_; }

private:
    struct Copied {
        Copied(Driver& driver, std::size_t size) : buffer(size), operation(driver) {}
        std::vector<std::byte> buffer;
        Counted<ReceiveOperation> operation;
    };

    static bool is_pending(const Operation& operation) { return operation.is_pending(); }

    void take(std::span<const std::byte> bytes) {
        received_.insert(received_.end(), bytes.begin(), bytes.end());
    }
    void take_lent(Counted<ReceiveLentOperation>& done) {
        EXPECT_EQ(done.completion_count, 1);
        take(done.data.bytes());
        if (below(random_, 4) == 0) {
            kept_.push_back(std::move(done.data));
        }
        done.data.give_back();
    }
    void take_copied(const Copied& one, const Counted<ReceiveOperation>& done) {
        EXPECT_EQ(done.completion_count, 1);
        take(std::span(one.buffer).first(done.count()));
    }

    Driver& driver_;
    Random& random_;
    SlotHandle slot_;
    bool is_closed_ = false;
    std::size_t offset_ = 0;
    std::deque<PatternSend> sends_;
    std::list<Counted<ReceiveLentOperation>> lent_;
    std::list<Copied> copied_;
    Counted<PollOperation> poll_{driver_};
    std::vector<Lent> kept_;
    std::vector<std::byte> received_;
};

struct Connection {
    Connection(Driver& driver, Random& random, SocketPair pair)
        : left(driver, random, std::move(pair.near)), right(driver, random, std::move(pair.far)) {}

    Side left;
    Side right;
};

class Stress {
public:
    Stress(const IoUringOptions& options, std::uint32_t seed) : random_(seed), driver_(options) {}

    void run(int steps) {
        for (int i = 0; i < 8; ++i) {
            open();
        }
        for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
            step();
        }
        while (!connections_.empty()) {
            finish(connections_.front());
            connections_.pop_front();
        }
    }

private:
    void open() {
        SocketPair pair = below(random_, 2) == 0 ? unix_pair() : tcp_pair();
        if (below(random_, 2) == 0) {
            set_send_buffer(pair.near.get(), 4096);
        }
        connections_.emplace_back(driver_, random_, std::move(pair));
    }

    void step() {
        auto connection = connections_.begin();
        std::advance(connection, below(random_, connections_.size()));
        Side& side = below(random_, 2) == 0 ? connection->left : connection->right;
        switch (below(random_, 24)) {
            case 0:
                side.cancel_receive();
                break;
            case 1:
                side.cancel_poll();
                break;
            case 2:
                if (below(random_, 4) == 0) {
                    side.cancel_send();
                }
                break;
            case 3:
                side.poll();
                break;
            case 4:
                driver_.engine().wake();
                break;
            case 5:
                if (below(random_, 40) == 0) {
                    end(connection);
                }
                break;
            case 6:
            case 7:
                side.give_back();
                break;
            case 8:
            case 9:
            case 10:
            case 11:
            case 12:
                side.send();
                break;
            case 13:
            case 14:
            case 15:
            case 16:
            case 17:
                side.receive();
                break;
            default:
                driver_.turn();
                side.forget_done();
                break;
        }
    }

    // Closed in the middle: the other side has received the beginning of what went out.
    void end(std::list<Connection>::iterator connection) {
        Side& left = connection->left;
        Side& right = connection->right;
        left.close();
        EXPECT_TRUE(driver_.run_until([&] { return left.is_quiet(); }));
        right.close();
        EXPECT_TRUE(driver_.run_until([&] { return right.is_quiet(); }));
        expect_beginning(left, right);
        expect_beginning(right, left);
        left.give_all_back();
        right.give_all_back();
        connections_.erase(connection);
        open();
    }

    static void expect_beginning(const Side& from, const Side& to) {
        const auto sent = from.sent();
        ASSERT_LE(to.received().size(), sent.size());
        EXPECT_TRUE(std::ranges::equal(to.received(), std::span(sent).first(to.received().size())));
    }

    // Read to the last byte.
    void finish(Connection& connection) {
        Side& left = connection.left;
        Side& right = connection.right;
        const auto has_all = [](const Side& from, const Side& to) {
            return from.waiting_sends() == 0 && to.received().size() == from.sent().size();
        };
        EXPECT_TRUE(driver_.run_until([&] {
            for (Connection& each : connections_) {
                each.left.give_all_back();
                each.right.give_all_back();
            }
            left.forget_done();
            right.forget_done();
            left.receive();
            right.receive();
            driver_.engine().wake();
            return has_all(left, right) && has_all(right, left);
        }));
        EXPECT_TRUE(left.sent() == right.received());
        EXPECT_TRUE(right.sent() == left.received());
        left.close();
        right.close();
        EXPECT_TRUE(driver_.run_until([&] { return left.is_quiet() && right.is_quiet(); }));
        left.give_all_back();
        right.give_all_back();
    }

    Random random_;
    Driver driver_;
    std::list<Connection> connections_;
};

TEST(IoUringStress, WithTheUsualSizes) {
    const std::uint32_t seed = seed_of_this_run();
    for (std::uint32_t i = 0; i < 5 && !testing::Test::HasFailure(); ++i) {
        SCOPED_TRACE("seed " + std::to_string(seed + i));
        Stress({}, seed + i).run(6000);
    }
}

TEST(IoUringStress, WithHardlyAnyBuffers) {
    const std::uint32_t seed = seed_of_this_run();
    IoUringOptions options;
    options.buffers = {.first_small = 8,
                       .most_small_target = 16,
                       .most_small = 32,
                       .first_large = 2,
                       .most_large_target = 2,
                       .most_large = 4};
    for (std::uint32_t i = 0; i < 5 && !testing::Test::HasFailure(); ++i) {
        SCOPED_TRACE("seed " + std::to_string(seed + i));
        Stress(options, seed + i).run(6000);
    }
}

TEST(IoUringStress, WithTheSmallestQueues) {
    const std::uint32_t seed = seed_of_this_run();
    IoUringOptions options;
    options.ring = {.submissions = 2, .completions = 4};
    for (std::uint32_t i = 0; i < 5 && !testing::Test::HasFailure(); ++i) {
        SCOPED_TRACE("seed " + std::to_string(seed + i));
        Stress(options, seed + i).run(6000);
    }
}

}  // namespace
}  // namespace berth::internal
