// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/child_job.h"

#include "bench/harness/allocation_count.h"
#include "bench/harness/process.h"
#include "bench/harness/system_call_count.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

namespace berth::bench {
namespace {

using namespace std::chrono_literals;

// Opaque, so that the compiler cannot leave the allocation out.
void allocate_once() {
    void* volatile memory = std::malloc(100);
    std::free(memory);
}

TEST(ChildJob, ReportsWhatItMeasuredBetweenGateAndEnd) {
    auto job = ChildJob::start(-1, [](ChildReport& report, const Gate& gate) -> Result<void> {
        gate.wait();
        const JobClock clock(report);
        for (int i = 0; i < 5; ++i) {
            allocate_once();
        }
        clock.stop();
        report.values[3] = 42;
        return {};
    });
    ASSERT_TRUE(job);
    ASSERT_TRUE(job->wait_for_gate(10s));
    job->open_gate();
    const auto report = job->wait(10s);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->values[3], 42U);
    EXPECT_GT(report->real_ns, 0U);
    EXPECT_GT(report->cpu_ns, 0U);
    EXPECT_GT(report->peak_rss_kib, 0);
    EXPECT_EQ(report->allocation_count, counts_allocations() ? 5U : 0U);
}

TEST(ChildJob, ClosesWhatItHasInheritedAndDoesNotNeed) {
    int lower[2];
    int higher[2];
    ASSERT_EQ(::pipe2(lower, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(higher, O_CLOEXEC), 0);
    auto job = ChildJob::start(-1, [&](ChildReport& report, const Gate&) -> Result<void> {
        close_inherited({lower[1]});
        std::size_t figure = 0;
        for (const int fd : {STDERR_FILENO, lower[0], lower[1], higher[0], higher[1]}) {
            report.values[figure++] = ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
        }
        return {};
    });
    ASSERT_TRUE(job);
    const auto report = job->wait(10s);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->values, (std::array<std::uint64_t, 8>{1, 0, 1, 0, 0}));
    for (const int fd : {lower[0], lower[1], higher[0], higher[1]}) {
        ::close(fd);
    }
}

TEST(ChildJob, ItsErrorReachesTheParent) {
    auto job = ChildJob::start(-1, [](ChildReport&, const Gate&) -> Result<void> {
        return std::unexpected(Error(Errc::refused, "test", "a subject"));
    });
    ASSERT_TRUE(job);
    const auto report = job->wait(10s);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code(), Errc::refused);
    EXPECT_EQ(report.error().subject(), "a subject");
}

TEST(ChildJob, AnErrorBeforeTheGateIsNotWaitedFor) {
    auto job = ChildJob::start(-1, [](ChildReport&, const Gate&) -> Result<void> {
        return std::unexpected(Error(Errc::refused, "test"));
    });
    ASSERT_TRUE(job);
    const auto waited = job->wait_for_gate(10s);
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code(), Errc::refused);
}

TEST(ChildJob, OneThatCrashesOrHangsIsAnError) {
    auto crashing =
        ChildJob::start(-1, [](ChildReport&, const Gate&) -> Result<void> { ::_exit(7); });
    ASSERT_TRUE(crashing);
    EXPECT_EQ(crashing->wait(10s).error().code(), Errc::system);
    auto hanging = ChildJob::start(-1, [](ChildReport&, const Gate&) -> Result<void> {
        for (;;) {
            ::pause();
        }
    });
    ASSERT_TRUE(hanging);
    EXPECT_EQ(hanging->wait(1ms).error().code(), Errc::timed_out);
}

class SystemCallCount : public testing::TestWithParam<SystemCallCounting> {};

INSTANTIATE_TEST_SUITE_P(EachWay, SystemCallCount,
                         testing::Values(SystemCallCounting::tracepoint,
                                         SystemCallCounting::ptrace));

TEST_P(SystemCallCount, CountsTheCallsOfAnotherProcess) {
    constexpr int kCalls = 100;
    auto job = ChildJob::start(-1, [](ChildReport&, const Gate& gate) -> Result<void> {
        gate.wait();
        for (int i = 0; i < kCalls; ++i) {
            ::syscall(SYS_getppid);
        }
        ::_exit(0);
    });
    ASSERT_TRUE(job);
    ASSERT_TRUE(job->wait_for_gate(10s));
    const auto count = count_system_calls(
        job->process(), job->end_descriptor(), 10s, [&] { job->open_gate(); }, GetParam());
    if (!count) {
        GTEST_SKIP() << "it may not be used here";
    }
    // The gate's own call ends within the counting, and exit_group() belongs to it.
    EXPECT_GE(*count, kCalls);
    EXPECT_LE(*count, kCalls + 4);
}

TEST(AllocationCount, CountsMallocCallocAndRealloc) {
    if (!counts_allocations()) {
        GTEST_SKIP() << "a sanitizer has taken their place";
    }
    std::uint64_t count = 0;
    count_allocations_into(&count);
    void* volatile memory = std::malloc(10);
    memory = std::realloc(memory, 20);
    void* volatile zeros = std::calloc(2, 10);
    count_allocations_into(nullptr);
    std::free(memory);
    std::free(zeros);
    allocate_once();
    EXPECT_EQ(count, 3U);
}

}  // namespace
}  // namespace berth::bench
