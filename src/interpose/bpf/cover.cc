// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/bpf/cover.h"

#include <utility>

namespace berth::internal::bpf {

Result<Cover> Cover::create(const CoverOptions& options) {
    Programs programs = BERTH_TRY(Programs::load());
    ChildCgroup cgroup = BERTH_TRY(ChildCgroup::create());
    const Descriptor directory = BERTH_TRY(open_cgroup(cgroup.path()));
    const berth_settings settings = BERTH_TRY(settings_for(cgroup.path(), options));
    Maps maps = BERTH_TRY(programs.maps());
    BERTH_TRY(maps.write_settings(settings));
    BERTH_TRY(programs.attach(directory));
    Keeper keeper(std::move(maps), settings);
    BERTH_TRY(keeper.look());
    return Cover(std::move(cgroup), std::move(programs), std::move(keeper));
}

Result<berth_counters> Cover::counters(Protocol protocol) const {
    const std::uint64_t cookie = BERTH_TRY(own_netns_cookie());
    const auto table = BERTH_TRY(
        maps().table({.netns_cookie = cookie, .protocol = number_of(protocol), .unused = 0}));
    return table ? table->table().counters : berth_counters{};
}

}  // namespace berth::internal::bpf
