// SPDX-License-Identifier: Apache-2.0
#include "bench/table/subject.h"

#include "bench/table/allocators.h"
#include "bench/table/berth_subject.h"
#include "bench/table/flat_bitmap.h"
#include "bench/table/permutation_lock.h"
#include "bench/table/random_scan.h"
#include "bench/table/summary_tree.h"

#include <algorithm>
#include <array>

namespace berth::bench {
namespace {

using Maker = Result<std::unique_ptr<Subject>> (*)(PortRange range);

template <class Model>
Result<std::unique_ptr<Subject>> make(PortRange range) {
    return std::make_unique<ModelSubject<Model>>(range.size());
}

template <BerthSubject::Kind kind>
Result<std::unique_ptr<Subject>> make_berth(PortRange range) {
    return BerthSubject::create(kind, range);
}

constexpr std::array<std::string_view, 7> kNames = {
    "berth",       "berth-rest",   "berth-shared",     "random-scan",
    "flat-bitmap", "summary-tree", "permutation-lock",
};
constexpr std::array<Maker, kNames.size()> kMakers = {
    make_berth<BerthSubject::Kind::without_rest>,
    make_berth<BerthSubject::Kind::default_rest>,
    make_berth<BerthSubject::Kind::shared_memory>,
    make<RandomScan>,
    make<FlatBitmap>,
    make<SummaryTree>,
    make<PermutationLock>,
};

}  // namespace

std::span<const std::string_view> table_allocators() noexcept { return kNames; }

Result<std::unique_ptr<Subject>> make_subject(std::string_view allocator, PortRange range) {
    const auto name = std::ranges::find(kNames, allocator);
    if (name == kNames.end()) {
        return std::unexpected(
            Error(Errc::invalid_argument, "bench table", allocator, 0, "no such allocator"));
    }
    return kMakers[static_cast<std::size_t>(name - kNames.begin())](range);
}

}  // namespace berth::bench
