// SPDX-License-Identifier: Apache-2.0
#include "bench/history/models.h"

#include "bench/history/allocators.h"
#include "bench/history/berth_model.h"
#include "bench/history/chain_bitmap.h"
#include "bench/history/odd_even.h"
#include "bench/history/one_try_per_port.h"
#include "bench/history/rcu_recheck.h"
#include "bench/history/shortest_chain.h"

#include <algorithm>
#include <array>

namespace berth::bench {
namespace {

using Maker = Result<std::unique_ptr<PortModel>> (*)(PortRange range);

template <class Model>
Result<std::unique_ptr<PortModel>> make(PortRange range) {
    return std::make_unique<Model>(range);
}

template <std::uint32_t chain_count, bool one_search_at_a_time>
Result<std::unique_ptr<PortModel>> make_one_try(PortRange range) {
    return std::make_unique<OneTryPerPort>(
        range, OneTryPerPort::Options{.chain_count = chain_count,
                                      .one_search_at_a_time = one_search_at_a_time});
}

constexpr std::array<std::string_view, 8> kNames = {
    "linux-2.6.24", "linux-2.6.28",        "linux-2.6.28-mutex", "chains-1024",
    "rcu-recheck",  "linux-2.6.29-bitmap", "linux-4.6-odd-even", "berth",
};
constexpr std::array<Maker, kNames.size()> kMakers = {
    make<ShortestChain>,     make_one_try<128, false>,
    make_one_try<128, true>, make_one_try<1024, false>,
    make<RcuRecheck>,        make<ChainBitmap>,
    make<OddEven>,           BerthModel::create,
};

}  // namespace

std::span<const std::string_view> history_allocators() noexcept { return kNames; }

Result<std::unique_ptr<PortModel>> make_port_model(std::string_view allocator, PortRange range) {
    const auto name = std::ranges::find(kNames, allocator);
    if (name == kNames.end()) {
        return std::unexpected(
            Error(Errc::invalid_argument, "bench history", allocator, 0, "no such allocator"));
    }
    return kMakers[static_cast<std::size_t>(name - kNames.begin())](range);
}

}  // namespace berth::bench
