// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/port_giver.h"

#include "src/base/clock.h"
#include "src/interpose/preload/next_calls.h"
#include "src/ports/rate_limit.h"

#include <linux/futex.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace berth::internal {
namespace {

constexpr std::uint32_t kLongestPauseMs = 20;

constinit thread_local bool is_drawing = false;

// The next number may need getrandom(), which a sandbox can forbid.
bool has_random_numbers() noexcept {
    const bool has_token = guest.process->fork.token.load(std::memory_order_relaxed) != 0;
    if (has_token && thread_random().is_keyed()) {
        return true;
    }
    char probe = 0;
    return ::getrandom(&probe, 1, 0) == 1;
}

void sleep_ms(std::uint32_t milliseconds) noexcept {
    const timespec pause{milliseconds / 1'000, static_cast<long>(milliseconds % 1'000) * 1'000'000};
    ::nanosleep(&pause, nullptr);
}

}  // namespace

Drawing::Drawing() noexcept : may_(!is_drawing && has_random_numbers()) {
    if (may_) {
        is_drawing = true;
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
}

Drawing::~Drawing() {
    if (may_) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
        is_drawing = false;
    }
}

bool is_over_quota() noexcept {
    const auto limit = static_cast<std::int32_t>(guest.options().per_process);
    return limit != 0 && guest.process->held_count.load(std::memory_order_relaxed) >= limit;
}

void ask_for_reconcile(TableCore& table) noexcept {
    if (pass_once(table.header().next_reconcile_ms, kRecheckIntervalMs)) {
        guest.page->wake.fetch_add(1, std::memory_order_release);
        ::syscall(SYS_futex, &guest.page->wake, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
}

bool Waiting::wait(CallRecord& record) noexcept {
    const std::uint64_t now = coarse_now_ms();
    const std::uint32_t wait_ms = guest.options().wait_ms;
    if (deadline_ms_ == 0) {
        deadline_ms_ = now + wait_ms;
    }
    if (wait_ms == 0 || now >= deadline_ms_) {
        return false;
    }
    record.note_wait();
    sleep_ms(pause_ms_);
    pause_ms_ = std::min(pause_ms_ * 2, kLongestPauseMs);
    return true;
}

PortGiver::PortGiver(int fd, const SocketFacts& facts, const Address& local,
                     CallRecord& record) noexcept
    : fd_(fd),
      facts_(facts),
      local_(local.with_port(0)),
      record_(record),
      table_(guest.table(facts.protocol)),
      footprint_(footprint_of(table_, fd, facts, local)),
      programs_range_(read_port_range(fd, facts)) {
    record.note_protocol(facts.protocol);
    narrow(programs_range_);
}

void PortGiver::narrow(std::uint32_t packed_range) noexcept {
    if (packed_range == 0) {
        return;
    }
    // As the kernel does: an end that is 0 or lies outside the whole range stays where it is.
    PortRange range = table_.range();
    const auto first = static_cast<std::uint16_t>(packed_range);
    const auto last = static_cast<std::uint16_t>(packed_range >> 16);
    range.first = range.contains(first) ? first : range.first;
    range.last = range.contains(last) ? last : range.last;
    ask_.range = range;
}

int PortGiver::give_if_unbound() noexcept {
    const int error = give();
    return error == EINVAL && has_port() ? kStepAside : error;
}

int PortGiver::give() noexcept {
    const ReuseCleared cleared(fd_, facts_);
    Waiting waiting;
    int error = give_now();
    while (error == kExhausted && waiting.wait(record_)) {
        error = give_now();
    }
    if (error == kExhausted) {
        record_.note_exhaustion();
        return EADDRINUSE;
    }
    return error;
}

int PortGiver::give_now() noexcept {
    if (is_over_quota()) {
        return has_port() ? kStepAside : kExhausted;
    }
    const int error = try_table();
    return error == kExhausted ? last_step() : error;
}

int PortGiver::try_table() noexcept {
    was_refused_ = false;
    for (unsigned i = 0; i < kRefusalLimit; ++i) {
        const OwnerWord owner = claim_word() | kBoundFlag;
        MaybePort port;
        {
            const Drawing drawing;
            if (!drawing.may()) return kStepAside;
            port = table_.take(footprint_, ask_, owner);
        }
        if (!port) {
            return kExhausted;
        }
        if (const int error = bind_to(*port, owner); error != EADDRINUSE) {
            return error;
        }
    }
    was_refused_ = true;
    return kExhausted;
}

int PortGiver::bind_to(std::uint16_t port, OwnerWord owner) noexcept {
    const Address local = local_.with_port(port);
    if (next_calls.bind(fd_, local.data(), local.size()) == 0) {
        hold_bound(fd_, facts_.protocol, footprint_, port, owner);
        record_.note_port(port, PortSource::table);
        return 0;
    }
    const int error = errno;
    if (error == EADDRINUSE) {
        table_.mark_kernel_held(footprint_, port, owner);
        record_.note_refusal();
        return error;
    }
    table_.unclaim(footprint_, port, owner);
    // The range begins below net.ipv4.ip_unprivileged_port_start: the kernel knows which are left.
    return error == EACCES ? kStepAside : error;
}

// Then a full table is no answer.
bool PortGiver::has_port() const noexcept {
    const auto local = local_address_of(fd_);
    return !local || local->port() != 0;
}

int PortGiver::last_step() noexcept {
    auto& next_recheck_ms = table_.header().next_recheck_ms[footprint_.takes[0]];
    if (has_port()) {
        return kStepAside;
    }
    if (!pass_once(next_recheck_ms, kRecheckIntervalMs) && !was_refused_) {
        return kExhausted;
    }
    ask_for_reconcile(table_);
    return bind_by_kernel();
}

// The kernel's own choice, which is complete where the table's bookkeeping is coarser than the
// kernel's rules or has missed something.
int PortGiver::bind_by_kernel() noexcept {
    const RunOptions& options = guest.options();
    const bool is_narrowed = ask_.range.is_valid();
    const bool knows_the_range = options.has_own_range == 0 || options.can_narrow != 0;
    if (!knows_the_range || options.has_exclusions != 0) {
        return kExhausted;
    }
    const bool is_told = options.can_narrow != 0 && !is_narrowed;
    if (is_told) {
        write_port_range(fd_, pack_port_range(table_.range()));
    }
    const int error = next_calls.bind(fd_, local_.data(), local_.size()) == 0 ? 0 : errno;
    if (is_told) {
        write_port_range(fd_, programs_range_);
    }
    if (error != 0) {
        return error == EADDRINUSE ? kExhausted : error;
    }
    if (const auto bound = local_address_of(fd_)) {
        note_bound(fd_, facts_, *bound);
        record_.note_port(bound->port(), PortSource::kernel);
    }
    table_.header().counters.kernel_choices.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

}  // namespace berth::internal
