// SPDX-License-Identifier: Apache-2.0
// Processes that use one shared table as fast as they can and are killed at any instruction, while
// others go on.
//
//   parent ── kills at random ──▶ victims ─┐
//      │                                   ├──▶ shared table, shared marks
//      └── pauses between rounds ▶ survivors ┘
//
// A mark says which process holds a port: one that finds the mark of another living process has got
// a port twice. Between the rounds, when the survivors have paused and hold nothing, every port
// must be free, resting, or in a lease that has not expired.
#include "src/base/process.h"
#include "src/base/socket_traits.h"
#include "src/ports/lease_book.h"
#include "src/ports/sweep.h"
#include "src/ports/table_memory.h"
#include "src/ports/table_state.h"
#include "src/ports/taken_ports.h"

#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using std::chrono::milliseconds;
using test::in_network_namespace;
using test::poll_until;

constexpr PortRange kRange = {40000, 40127};
constexpr std::uint32_t kRestPeriodMs = 20;
constexpr milliseconds kLeaseTime{60};
constexpr unsigned kSurvivorCount = 2;
constexpr unsigned kVictimsPerRound = 10;
constexpr unsigned kDefaultKills = 60;

// In memory that all processes share.
struct Shared {
    std::array<std::atomic<std::uint64_t>, kPortCount> marks;  // process word, 0: nobody
    std::atomic<unsigned> doubled_count;
    std::atomic<unsigned> failure_count;  // what a process did not expect at all
    std::atomic<std::uint64_t> operation_count;
    std::atomic<bool> is_paused;
    std::atomic<unsigned> paused_count;
};

struct Unmap {
    void operator()(Shared* shared) const { ::munmap(shared, sizeof(Shared)); }
};
using SharedPointer = std::unique_ptr<Shared, Unmap>;

SharedPointer make_shared_marks() {
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return SharedPointer(memory == MAP_FAILED ? nullptr : new (memory) Shared{});
}

// What one process does all the time.
class Worker {
public:
    Worker(TableState& table, Shared& shared) : table_(table), shared_(shared) {}

    void run(bool is_survivor) {
        while (true) {
            step();
            shared_.operation_count.fetch_add(1, std::memory_order_relaxed);
            if (is_survivor && shared_.is_paused) {
                pause();
            }
        }
    }

private:
    struct Held {
        Port port;
        Socket socket;
    };

    void step() {
        switch (thread_random().below(8)) {
            case 0:
            case 1:
                // Either overlaps with the other, so that a mark by number is enough.
                keep(table_.take(thread_random().below(2) == 0 ? TakeFamily::both
                                                               : TakeFamily::ipv4),
                     {});
                break;
            case 2:
            case 3:
                bind();
                break;
            case 4:
                lease();
                break;
            case 5:
                table_.sweep();
                break;
            default:
                let_one_go();
        }
        while (held_.size() > 12) let_one_go();
    }

    void bind() {
        auto socket = udp_socket(Family::ipv4);
        if (!socket) {
            ++shared_.failure_count;
            return;
        }
        auto port = table_.bind(SocketTraits::of(*socket), Address::any(Family::ipv4), {});
        keep(std::move(port), std::move(*socket));
    }

    void lease() {
        const auto lease = table_.lease(
            {.count = 2, .shape = LeaseShape::even_odd_pairs, .expires_in = kLeaseTime});
        if (!lease) {
            return;
        }
        if (thread_random().below(4) != 0) {
            keep(table_.claim(lease->ports[0], lease->token), {});
        }
        if (thread_random().below(4) != 0) {
            static_cast<void>(give_back_lease(table_.core(), lease->token));
        }
    }

    void keep(Result<Port> port, Socket socket) {
        if (!port) {
            const Errc code = port.error().code();
            const bool is_expected = code == Errc::ports_exhausted || code == Errc::lease_expired ||
                                     code == Errc::not_holder;
            shared_.failure_count += is_expected ? 0 : 1;
            return;
        }
        const std::uint64_t before = shared_.marks[port->number()].exchange(own_process_word());
        if (before != 0 && is_alive(ProcessIdentity::unpack(before))) {
            ++shared_.doubled_count;
        }
        held_.push_back({std::move(*port), std::move(socket)});
    }

    void let_one_go() {
        if (held_.empty()) {
            return;
        }
        const auto index = thread_random().below(static_cast<std::uint32_t>(held_.size()));
        std::swap(held_[index], held_.back());
        shared_.marks[held_.back().port.number()] = 0;
        held_.back().socket.close();
        held_.pop_back();
    }

    void pause() {
        while (!held_.empty()) let_one_go();
        ++shared_.paused_count;
        poll_until([this] { return !shared_.is_paused; }, std::chrono::minutes(5));
        --shared_.paused_count;
    }

    TableState& table_;
    Shared& shared_;
    std::vector<Held> held_;
};

pid_t start_worker(TableState& table, Shared& shared, bool is_survivor) {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() == parent) {
            Worker(table, shared).run(is_survivor);
        }
        ::_exit(0);
    }
    return child;
}

void kill_and_reap(pid_t process) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
}

class CrashTest {
public:
    CrashTest(std::unique_ptr<TableState> table, SharedPointer shared)
        : table_(std::move(table)), shared_(std::move(shared)) {}

    void run(unsigned kill_count) {
        for (unsigned i = 0; i < kSurvivorCount; ++i) {
            survivors_.push_back(start_worker(*table_, *shared_, true));
        }
        for (unsigned killed = 0; killed < kill_count; killed += kVictimsPerRound) {
            run_round(std::min(kVictimsPerRound, kill_count - killed));
            if (testing::Test::HasFailure()) break;
        }
        for (const pid_t survivor : survivors_) kill_and_reap(survivor);
        expect_nothing_lost("at the end");
        EXPECT_EQ(shared_->doubled_count.load(), 0U);
        EXPECT_EQ(shared_->failure_count.load(), 0U);
        std::printf("%u processes killed in %llu operations, %llu ports taken back\n", kill_count,
                    static_cast<unsigned long long>(shared_->operation_count),
                    static_cast<unsigned long long>(table_->statistics().reclaimed_count));
    }

private:
    void run_round(unsigned victim_count) {
        std::vector<pid_t> victims;
        for (unsigned i = 0; i < victim_count; ++i) {
            victims.push_back(start_worker(*table_, *shared_, false));
        }
        for (const pid_t victim : victims) {
            // An instant: a number of operations of all together, none for some.
            const std::uint64_t until = shared_->operation_count + thread_random().below(60);
            poll_until([&] { return shared_->operation_count >= until; });
            kill_and_reap(victim);
        }
        shared_->is_paused = true;
        ASSERT_TRUE(poll_until([&] { return shared_->paused_count == kSurvivorCount; }));
        expect_nothing_lost("after a round");
        shared_->is_paused = false;
        ASSERT_TRUE(poll_until([&] { return shared_->paused_count == 0; }));
    }

    // Nobody is at work now, so that an orphan needs no time to prove to be one.
    void expect_nothing_lost(const char* when) {
        table_->sweep();

        sweep_orphans(table_->core(), coarse_now_ms());
        sweep_orphans(table_->core(), coarse_now_ms() + kOrphanGraceMs);
        ASSERT_TRUE(test::succeeded(table_->reconcile()));
        EXPECT_TRUE(poll_until([this] {
            table_->sweep();
            return lost_count() == 0;
        })) << lost_count()
            << " ports are lost " << when;
        for (auto& mark : shared_->marks) mark = 0;
    }

    unsigned lost_count() {
        unsigned count = 0;
        for_each_used_space(table_->core(), [&](unsigned index) {
            for_each_taken_port(table_->core(), index, [&](std::uint16_t, OwnerWord) { ++count; });
        });
        return count;
    }

    std::unique_ptr<TableState> table_;
    SharedPointer shared_;
    std::vector<pid_t> survivors_;
};

unsigned kill_count() {
    const char* text = std::getenv("BERTH_TEST_KILLS");
    return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : kDefaultKills;
}

// BERTH_TEST_KILLS=500 kills more.
TEST(Crash, KilledProcessesLoseAndDoubleNothing) {
    in_network_namespace({.range = kRange, .timeout_seconds = 600}, [] {
        auto memory =
            TableMemory::create_memfd({Protocol::udp, kRestPeriodMs, PortRange{0, 0}, true});
        ASSERT_TRUE(test::succeeded(memory));
        auto table = TableState::make(std::move(*memory), {});
        ASSERT_TRUE(test::succeeded(table));
        SharedPointer shared = make_shared_marks();
        ASSERT_NE(shared, nullptr);
        CrashTest(std::move(*table), std::move(shared)).run(kill_count());
    });
}

}  // namespace
}  // namespace berth::internal
