// SPDX-License-Identifier: Apache-2.0
#include "src/base/process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace berth::internal {
namespace {

TEST(Process, KnowsItself) {
    const ProcessIdentity self = ProcessIdentity::unpack(own_process_word());
    EXPECT_EQ(self.pid, ::getpid());
    EXPECT_NE(self.start_ticks, 0U);
    EXPECT_EQ(self.packed(), own_process_word());
    EXPECT_EQ(own_process_word(), read_own_process_word());
    EXPECT_TRUE(is_alive(self));
}

TEST(Process, PackedIdentityKeepsTheLargestPid) {
    const ProcessIdentity largest = {(1 << 22) - 1, ProcessIdentity::kStartMask};
    EXPECT_EQ(largest.packed() >> ProcessIdentity::kBits, 0U);
    EXPECT_EQ(ProcessIdentity::unpack(largest.packed()).pid, largest.pid);
    EXPECT_EQ(ProcessIdentity::unpack(largest.packed()).start_ticks, largest.start_ticks);
}

TEST(Process, ReusedPidIsAnotherProcess) {
    ProcessIdentity self = ProcessIdentity::unpack(own_process_word());
    ++self.start_ticks;
    EXPECT_FALSE(is_alive(self));
}

TEST(Process, UnknownStartTimeIsInDoubtAlive) { EXPECT_TRUE(is_alive({::getpid(), 0})); }

TEST(Process, ForkedChildIsSomebodyElse) {
    static_cast<void>(own_process_word());
    const pid_t child = ::fork();
    if (child == 0) {
        const ProcessIdentity self = ProcessIdentity::unpack(own_process_word());
        ::_exit(self.pid == ::getpid() && is_alive(self) ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

TEST(Process, ZombieAndReapedChildAreNotAlive) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
    }
    const ProcessIdentity identity = {child, 0};
    EXPECT_TRUE(is_alive(identity));
    ::kill(child, SIGKILL);
    siginfo_t info;
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    EXPECT_FALSE(is_alive(identity)) << "a zombie's sockets are closed";
    ::waitpid(child, nullptr, 0);
    EXPECT_FALSE(is_alive(identity));
}

TEST(Process, NameOfAProcessMayHoldAnything) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::prctl(PR_SET_NAME, ") Z 0 (");
        ::_exit(is_alive({::getpid(), 0}) ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

TEST(Process, SomebodyElsesProcessIsAlive) { EXPECT_TRUE(is_alive({1, 0})); }

}  // namespace
}  // namespace berth::internal
