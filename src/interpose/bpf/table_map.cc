// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/bpf/table_map.h"

#include "src/base/clock.h"

#include <bpf/bpf.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <span>
#include <utility>

namespace berth::internal::bpf {
namespace {

template <class T>
T load(T& word) noexcept {
    return std::atomic_ref<T>(word).load(std::memory_order_acquire);
}
template <class T>
void store(T& word, T value) noexcept {
    std::atomic_ref<T>(word).store(value, std::memory_order_release);
}
template <class T>
T add(T& word, T value) noexcept {
    return std::atomic_ref<T>(word).fetch_add(value);
}
std::uint64_t set_bits(unsigned long long& word, std::uint64_t bits) noexcept {
    return std::atomic_ref(word).fetch_or(bits);
}
std::uint64_t clear_bits(unsigned long long& word, std::uint64_t bits) noexcept {
    return std::atomic_ref(word).fetch_and(~bits);
}

constexpr std::uint64_t bit_of(unsigned port) noexcept { return std::uint64_t{1} << (port % 64); }

int& free_count_of(berth_table& table, unsigned port) noexcept {
    return table.free_counts[port / 64 / BERTH_GROUP_WORDS];
}
berth_rest& rest_of(berth_table& table, bool is_lengthy) noexcept {
    return is_lengthy ? table.lengthy : table.brief;
}

Result<berth_table*> map_memory(int map) {
    void* memory = ::mmap(nullptr, sizeof(berth_table), PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
    if (memory == MAP_FAILED) {
        return std::unexpected(Error::from_errno(errno, "map port table"));
    }
    return static_cast<berth_table*>(memory);
}

int count_free(berth_table& table, unsigned group) noexcept {
    int count = 0;
    for (unsigned i = 0; i < BERTH_GROUP_WORDS; ++i) {
        count += std::popcount(load(table.free[group * BERTH_GROUP_WORDS + i]));
    }
    return count;
}

int count_resting(berth_rest& rest) noexcept {
    int count = 0;
    for (auto& map : rest.ports) {
        for (auto& word : map) count += std::popcount(load(word));
    }
    return count;
}

int count_pending(berth_table& table) noexcept {
    int count = 0;
    for (auto& owner : table.owners) count += kind_of(load(owner)) == BERTH_PENDING ? 1 : 0;
    return count;
}

// Corrects a count only when nothing has moved while it was checked.
template <class CountAgain>
void correct(int& count, CountAgain count_again) noexcept {
    const int before = load(count);
    const int found = count_again();
    if (found != before && load(count) == before && count_again() == found) {
        add(count, found - before);
    }
}

}  // namespace

std::uint64_t monotonic_ms() noexcept { return coarse_now_ms(); }

std::uint32_t number_of(Protocol protocol) noexcept {
    return protocol == Protocol::udp ? IPPROTO_UDP : IPPROTO_TCP;
}

Result<TableMap> TableMap::create(PortRange range, const PortWords& allowed, Rests rests) {
    bpf_map_create_opts options{};
    options.sz = sizeof(options);
    options.map_flags = BPF_F_MMAPABLE;
    Descriptor map(::bpf_map_create(BPF_MAP_TYPE_ARRAY, "berth_table", sizeof(std::uint32_t),
                                    sizeof(berth_table), 1, &options));
    if (!map.is_open()) {
        return std::unexpected(Error::from_errno(errno, "make port table"));
    }
    berth_table* memory = BERTH_TRY(map_memory(map.get()));
    TableMap made(std::move(map), memory);
    if (::getrandom(memory->key, sizeof(memory->key), 0) != sizeof(memory->key)) {
        return std::unexpected(Error::from_errno(errno, "make port table", "getrandom"));
    }
    memory->brief.epoch_ms = rests.brief_ms / 2;
    memory->lengthy.epoch_ms = rests.lengthy_ms / 2;
    made.set_allowed(range, allowed);
    made.set_pair_rests({});
    return made;
}

Result<TableMap> TableMap::open(Descriptor map) {
    bpf_map_info info{};
    std::uint32_t size = sizeof(info);
    if (::bpf_obj_get_info_by_fd(map.get(), &info, &size) != 0) {
        return std::unexpected(Error::from_errno(errno, "open port table"));
    }
    if (info.value_size != sizeof(berth_table)) {
        return std::unexpected(Error(Errc::table_mismatch, "open port table", {}, 0,
                                     "it was made by another version of berth",
                                     "run 'berth detach' and attach anew"));
    }
    berth_table* memory = BERTH_TRY(map_memory(map.get()));
    return TableMap(std::move(map), memory);
}

TableMap::TableMap(Descriptor map, berth_table* table) noexcept
    : map_(std::move(map)), table_(table) {}
TableMap::TableMap(TableMap&& other) noexcept
    : map_(std::move(other.map_)), table_(std::exchange(other.table_, nullptr)) {}
TableMap& TableMap::operator=(TableMap&& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(table_, other.table_);
    return *this;
}
TableMap::~TableMap() {
    if (table_ != nullptr) ::munmap(table_, sizeof(berth_table));
}

std::uint64_t TableMap::owner(unsigned port) const noexcept { return load(table_->owners[port]); }

bool TableMap::replace_owner(unsigned port, std::uint64_t before,
                             std::uint64_t after) const noexcept {
    unsigned long long expected = before;
    return std::atomic_ref(table_->owners[port]).compare_exchange_strong(expected, after);
}

bool TableMap::is_free(unsigned port) const noexcept {
    return (load(table_->free[port / 64]) & bit_of(port)) != 0;
}
bool TableMap::is_allowed(unsigned port) const noexcept {
    return (load(table_->allowed[port / 64]) & bit_of(port)) != 0;
}

void TableMap::put_free(unsigned port) const noexcept {
    if (is_allowed(port) && (set_bits(table_->free[port / 64], bit_of(port)) & bit_of(port)) == 0) {
        add(free_count_of(*table_, port), 1);
    }
}
void TableMap::take_free(unsigned port) const noexcept {
    if ((clear_bits(table_->free[port / 64], bit_of(port)) & bit_of(port)) != 0) {
        add(free_count_of(*table_, port), -1);
    }
}

bool TableMap::is_resting(unsigned port, bool is_lengthy) const noexcept {
    std::uint64_t bits = 0;
    for (auto& map : rest_of(*table_, is_lengthy).ports) bits |= load(map[port / 64]);
    return (bits & bit_of(port)) != 0;
}

void TableMap::forget_rest(unsigned port, bool is_lengthy) const noexcept {
    berth_rest& rest = rest_of(*table_, is_lengthy);
    for (auto& map : rest.ports) {
        if ((load(map[port / 64]) & bit_of(port)) != 0 &&
            (clear_bits(map[port / 64], bit_of(port)) & bit_of(port)) != 0) {
            add(rest.count, -1);
        }
    }
}

void TableMap::put_to_rest(unsigned port, bool is_lengthy) const noexcept {
    berth_rest& rest = rest_of(*table_, is_lengthy);
    if (rest.epoch_ms == 0) {
        put_free(port);
        return;
    }
    const std::uint64_t epoch = monotonic_ms() / rest.epoch_ms;
    const unsigned map = epoch % BERTH_REST_MAPS;
    // A map of an older epoch holds ports that have rested; they rest once more at worst.
    store(rest.epochs[map], static_cast<unsigned long long>(epoch));
    if ((set_bits(rest.ports[map][port / 64], bit_of(port)) & bit_of(port)) == 0) {
        add(rest.count, 1);
    }
}

void TableMap::note_settled() const noexcept { add(table_->pending_count, -1); }

void TableMap::set_allowed(PortRange range, const PortWords& allowed) const noexcept {
    store(table_->first, std::uint32_t{range.first});
    store(table_->last, std::uint32_t{range.last});
    for (unsigned i = 0; i < BERTH_WORDS; ++i) {
        const std::uint64_t before = load(table_->allowed[i]);
        if (before == allowed[i]) continue;
        store(table_->allowed[i], static_cast<unsigned long long>(allowed[i]));
        for (unsigned port = i * 64; port < i * 64 + 64; ++port) {
            const bool was_allowed = (before & bit_of(port)) != 0;
            if (was_allowed && !has_port(allowed, port)) {
                take_free(port);
            } else if (!was_allowed && has_port(allowed, port) && owner(port) == 0) {
                put_free(port);
            }
        }
    }
}

void TableMap::set_pair_rests(const TimeWaitRests& rests) const noexcept {
    store(table_->local_pair_rest_ms, rests.local_ms);
    store(table_->remote_pair_rest_ms, rests.remote_ms);
}

void TableMap::extend(std::uint32_t valid_ms) const noexcept {
    store(table_->valid_until_ms, static_cast<unsigned long long>(monotonic_ms()) + valid_ms);
}

bool TableMap::takes_wish_for_sync() const noexcept {
    return load(table_->wants_sync) != 0 && std::atomic_ref(table_->wants_sync).exchange(0) != 0;
}

void TableMap::recount() const noexcept {
    for (unsigned group = 0; group < BERTH_GROUPS; ++group) {
        correct(table_->free_counts[group], [&] { return count_free(*table_, group); });
    }
    correct(table_->brief.count, [&] { return count_resting(table_->brief); });
    correct(table_->lengthy.count, [&] { return count_resting(table_->lengthy); });
    correct(table_->pending_count, [&] { return count_pending(*table_); });
}

TableMap::Occupancy TableMap::occupancy() const noexcept {
    Occupancy sum;
    for (unsigned port = 1; port < BERTH_PORTS; ++port) {
        if (!is_allowed(port)) continue;
        const std::uint64_t word = owner(port);
        ++sum.allowed;
        if (kind_of(word) == BERTH_PENDING) {
            ++sum.pending;
        } else if (word != 0) {
            ++sum.owned;
        } else if (is_free(port)) {
            ++sum.free;
        } else if (is_resting(port, false) || is_resting(port, true)) {
            ++sum.resting;
        }
    }
    return sum;
}

}  // namespace berth::internal::bpf
