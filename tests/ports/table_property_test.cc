// SPDX-License-Identifier: Apache-2.0
// Random sequences of everything a table can do, held against a model of plain sets.
#include "src/ports/lease_book.h"
#include "src/ports/table_core.h"

#include "tests/support/core_table.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using test::address;
using test::CoreTable;

constexpr std::uint16_t kBase = 40000;
constexpr std::uint16_t kPortCountOfModel = 24;

// The kinds of sockets; a kind takes its port in some of these spaces and looks into others.
enum ModelSpace : unsigned { wildcard_v4, wildcard_v6, first_v4, second_v4, only_v6, space_count };

struct Kind {
    const char* local;
    bool is_dual_stack;
    std::vector<unsigned> takes;
    std::vector<unsigned> checks;
};

const Kind kKinds[] = {
    {"0.0.0.0", false, {wildcard_v4}, {first_v4, second_v4}},
    {"::", false, {wildcard_v6}, {only_v6}},
    {"::", true, {wildcard_v4, wildcard_v6}, {first_v4, second_v4, only_v6}},
    {"127.0.0.1", false, {first_v4}, {wildcard_v4}},
    {"127.0.0.2", false, {second_v4}, {wildcard_v4}},
    {"::1", false, {only_v6}, {wildcard_v6}},
};
constexpr unsigned kDualStack = 2;  // what leases take

// What to do, with which kind of socket, and numbers from which ports and holders are chosen.
using Step = std::tuple<unsigned, unsigned, unsigned, unsigned, unsigned>;

struct Held {
    unsigned kind;
    std::uint16_t port;
};

// Plain sets that say what must be so.
class Model {
public:
    bool is_free(unsigned kind, std::uint16_t port) const {
        const auto is_taken_in = [&](unsigned space) { return taken_[space].contains(port); };
        return allowed.contains(port) && std::ranges::none_of(kKinds[kind].takes, is_taken_in) &&
               std::ranges::none_of(kKinds[kind].checks, is_taken_in);
    }
    // A bind by number only minds the spaces that it takes.
    bool is_claimable(unsigned kind, std::uint16_t port) const {
        return std::ranges::none_of(kKinds[kind].takes,
                                    [&](unsigned space) { return taken_[space].contains(port); });
    }
    std::vector<std::uint16_t> free_ports(unsigned kind, PortRange range) const {
        std::vector<std::uint16_t> ports;
        for (unsigned port = range.first; port <= range.last; ++port) {
            if (is_free(kind, static_cast<std::uint16_t>(port))) {
                ports.push_back(static_cast<std::uint16_t>(port));
            }
        }
        return ports;
    }
    void take(unsigned kind, std::uint16_t port) {
        for (const unsigned space : kKinds[kind].takes) taken_[space].insert(port);
    }
    void release(unsigned kind, std::uint16_t port) {
        for (const unsigned space : kKinds[kind].takes) taken_[space].erase(port);
    }

    std::set<std::uint16_t> allowed;

private:
    std::set<std::uint16_t> taken_[space_count];
};

class Run {
public:
    explicit Run(std::uint32_t rest_period_ms) : table_(kWhole, rest_period_ms) {
        for (unsigned port = kWhole.first; port <= kWhole.last; ++port) {
            model_.allowed.insert(static_cast<std::uint16_t>(port));
        }
    }

    void step(const Step& step) {
        const auto& [what, kind_number, first, second, third] = step;
        const unsigned kind = kind_number % std::size(kKinds);
        const auto port = [](unsigned number) {
            return static_cast<std::uint16_t>(kBase + number % kPortCountOfModel);
        };
        const auto [low, high] = std::minmax({port(first), port(second)});
        switch (what) {
            case 0:
                return claim_exactly(kind, port(first));
            case 1:
                return take_one(kind, {.range = {low, high}, .excluded = port(third)});
            case 2:
                return lease(
                    {.count = 2 + 2 * (first % 3), .shape = static_cast<LeaseShape>(second % 3)});
            case 3:
                return claim_leased_port(first, port(second));
            case 4:
                return give_back();
            case 5:
                return change_range({low, high}, port(third));
            case 6:
            case 7:
            case 8:
                return release(first);
            default:
                return take_one(kind, {});
        }
    }

    // Whatever was released must be there to the last port.
    void expect_complete() {
        for (const unsigned kind : {kDualStack, 0U, 3U}) {
            const auto expected = model_.free_ports(kind, kWhole);
            for (std::size_t i = 0; i < expected.size(); ++i) take_one(kind, {});
            RC_ASSERT(!table_->take(footprint_of(kind), {}, own_word()));
        }
    }

private:
    static constexpr PortRange kWhole = {kBase, kBase + kPortCountOfModel - 1};

    Footprint footprint_of(unsigned kind) {
        return table_.bind(address(kKinds[kind].local), kKinds[kind].is_dual_stack);
    }

    void take_one(unsigned kind, const Ask& ask) {
        auto expected = model_.free_ports(kind, ask.range.is_valid() ? ask.range : kWhole);
        std::erase(expected, ask.excluded);
        const MaybePort port = table_->take(footprint_of(kind), ask, own_word());
        RC_ASSERT(static_cast<bool>(port) == !expected.empty());
        if (port) {
            RC_ASSERT(std::ranges::count(expected, *port) == 1);
            model_.take(kind, *port);
            held_.push_back({kind, *port});
        }
    }

    void release(unsigned number) {
        if (held_.empty()) {
            return;
        }
        std::swap(held_[number % held_.size()], held_.back());
        const Held last = held_.back();
        held_.pop_back();
        table_->release(footprint_of(last.kind), last.port, own_word());
        model_.release(last.kind, last.port);
    }

    void claim_exactly(unsigned kind, std::uint16_t port) {
        const bool is_claimed = table_->claim_exactly(footprint_of(kind), port, own_word());
        RC_ASSERT(is_claimed == model_.is_claimable(kind, port));
        if (is_claimed) {
            model_.take(kind, port);
            held_.push_back({kind, port});
        }
    }

    bool fits(const LeaseOptions& options, const std::vector<std::uint16_t>& free) const {
        const auto has = [&](unsigned port) { return std::ranges::count(free, port) > 0; };
        switch (options.shape) {
            case LeaseShape::any:
                return free.size() >= options.count;
            case LeaseShape::even_odd_pairs:
                return std::ranges::count_if(free, [&](std::uint16_t port) {
                           return port % 2 == 0 && has(port + 1U);
                       }) >= options.count / 2;
            default:
                return std::ranges::any_of(free, [&](std::uint16_t port) {
                    unsigned length = 1;
                    while (length < options.count && has(port + length)) ++length;
                    return length == options.count;
                });
        }
    }

    void lease(const LeaseOptions& options) {
        const auto free = model_.free_ports(kDualStack, kWhole);
        auto lease = grant_lease(*table_, options);
        RC_ASSERT(lease.has_value() == fits(options, free));
        if (!lease) {
            return;
        }
        RC_ASSERT(fits(options, lease->ports));
        for (const std::uint16_t port : lease->ports) {
            RC_ASSERT(model_.is_free(kDualStack, port));
            model_.take(kDualStack, port);
        }
        leases_.push_back(std::move(*lease));
    }

    void claim_leased_port(unsigned number, std::uint16_t port) {
        if (leases_.empty()) {
            return;
        }
        Lease& lease = leases_[number % leases_.size()];
        const bool is_claimed = claim_leased(*table_, port, lease.token, own_word()).has_value();
        RC_ASSERT(is_claimed == (std::erase(lease.ports, port) == 1));
        if (is_claimed) {
            held_.push_back({kDualStack, port});
        }
    }

    void give_back() {
        if (leases_.empty()) {
            return;
        }
        const Lease lease = leases_.back();
        leases_.pop_back();
        RC_ASSERT(give_back_lease(*table_, lease.token).has_value());
        for (const std::uint16_t port : lease.ports) model_.release(kDualStack, port);
    }

    void change_range(PortRange range, std::uint16_t reserved) {
        table_.allow(range, {reserved});
        model_.allowed.clear();
        for (unsigned port = range.first; port <= range.last; ++port) {
            if (port != reserved) model_.allowed.insert(static_cast<std::uint16_t>(port));
        }
    }

    CoreTable table_;
    Model model_;
    std::vector<Held> held_;
    std::vector<Lease> leases_;
};

void check_against_model(std::uint32_t rest_period_ms) {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    const bool holds = rc::check(info->name(), [rest_period_ms] {
        const auto number = [](unsigned end) { return rc::gen::inRange(0U, end); };
        const auto steps = *rc::gen::container<std::vector<Step>>(
            rc::gen::tuple(number(16), number(6), number(24), number(24), number(24)));
        Run run(rest_period_ms);
        for (const Step& step : steps) run.step(step);
        run.expect_complete();
    });
    // The table's own draws come from the kernel's randomness: a replay makes the same requests.
    EXPECT_TRUE(holds) << "replay with RC_PARAMS=\"reproduce=<as printed above>\" berth_tests "
                          "--gtest_filter="
                       << info->test_suite_name() << '.' << info->name();
}

TEST(TableProperty, AgreesWithAModelWithoutRests) { check_against_model(0); }
TEST(TableProperty, AgreesWithAModelWhileRestsEndByTheClock) { check_against_model(12); }
TEST(TableProperty, AgreesWithAModelWhenRestsOnlyEndByNeed) { check_against_model(3'600'000); }

}  // namespace
}  // namespace berth::internal
