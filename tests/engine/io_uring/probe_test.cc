// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/probe.h"

#include "tests/engine/io_uring/engine_driver.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <iostream>
#include <limits>

namespace berth::internal {
namespace {

constexpr unsigned kAnyArgument = std::numeric_limits<unsigned>::max();

/// From now on this process gets `error` from system call `number`, when its second argument is
/// `argument`.
void forbid(long number, int error, unsigned argument = kAnyArgument) {
    const auto load = [](std::size_t offset) {
        return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
    };
    const auto jump_unless = [](unsigned value, std::uint8_t skipped) {
        return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
    };
    const auto answer = [](unsigned value) { return sock_filter BPF_STMT(BPF_RET | BPF_K, value); };
    const unsigned refusal = SECCOMP_RET_ERRNO | static_cast<unsigned>(error);
    const bool is_any = argument == kAnyArgument;
    std::array<sock_filter, 6> program = {
        load(offsetof(seccomp_data, nr)),
        jump_unless(static_cast<unsigned>(number), 3),
        load(is_any ? offsetof(seccomp_data, nr) : offsetof(seccomp_data, args[1])),
        jump_unless(is_any ? static_cast<unsigned>(number) : argument, 1),
        answer(refusal),
        answer(SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        std::cerr << "seccomp: " << errno << '\n';
        ::_exit(2);
    }
}

/// Runs `body` in a child process, which succeeds when that answers true.
[[nodiscard]] bool holds_in_child(const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        forget_io_uring_probe();
        ::_exit(body() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// The engine cannot be had, and the message says `reason`.
bool is_refused(std::string_view reason, Errc code = Errc::unsupported) {
    ReadyList ready;
    const EngineResult engine = make_io_uring_engine(ready);
    if (engine) {
        std::cerr << "not refused\n";
        return false;
    }
    const std::string message = engine.error().message();
    if (engine.error().code() != code || message.find(reason) == std::string::npos ||
        message.find(code == Errc::unsupported ? "epoll" : "") == std::string::npos) {
        std::cerr << message << '\n';
        return false;
    }
    return true;
}

TEST(IoUringProbe, FindsItToWorkHere) {
    forget_io_uring_probe();
    const auto features = probe_io_uring();
    ASSERT_TRUE(features) << features.error().message();
    const auto again = probe_io_uring();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->has_message_wake, features->has_message_wake);
    EXPECT_EQ(again->has_absolute_timer, features->has_absolute_timer);
    EXPECT_EQ(again->has_no_iowait, features->has_no_iowait);
}

TEST(IoUringProbe, SaysThatItIsForbidden) {
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_setup, EPERM);
        return is_refused("forbidden by a seccomp filter");
    }));
}

TEST(IoUringProbe, SaysThatItIsHidden) {
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_setup, ENOSYS);
        return is_refused("hidden by a seccomp filter");
    }));
}

TEST(IoUringProbe, SaysThatTheKernelIsTooOld) {
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_setup, EINVAL);
        return is_refused("6.1 or newer");
    }));
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_register, EINVAL, IORING_REGISTER_PBUF_RING);
        return is_refused("registers no ring of buffers");
    }));
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_register, EINVAL, IORING_REGISTER_PROBE);
        return is_refused("lacks operations");
    }));
}

TEST(IoUringProbe, SaysThatTheAdministratorHasSwitchedItOff) {
    EXPECT_TRUE(holds_in_child([] {
        if (::unshare(CLONE_NEWNS) != 0) {
            return true;  // not as root: nothing to put in the setting's place
        }
        constexpr const char* kSetting = "/proc/sys/kernel/io_uring_disabled";
        const int file = ::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        const std::string path = "/proc/self/fd/" + std::to_string(file);
        if (file < 0 || ::write(file, "2\n", 2) != 2 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount(path.c_str(), kSetting, nullptr, MS_BIND, nullptr) != 0) {
            return true;
        }
        forbid(__NR_io_uring_setup, EPERM);
        return is_refused("kernel.io_uring_disabled=2");
    }));
}

TEST(IoUringProbe, SaysWhenSomethingElseRunsOut) {
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_setup, EMFILE);
        return is_refused("", Errc::descriptors_exhausted);
    }));
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_setup, ENOMEM);
        return is_refused("memory", Errc::out_of_memory);
    }));
}

// What is missing without harm is done without.
TEST(IoUringProbe, DoesWithoutMessagesAndRegisteredRings) {
    EXPECT_TRUE(holds_in_child([] {
        forbid(__NR_io_uring_register, EINVAL, kRegisterSendMessage);
        forbid(__NR_io_uring_register, EINVAL, IORING_REGISTER_RING_FDS);
        Driver driver;
        const auto features = probe_io_uring();
        driver.engine().wake();
        return features && !features->has_message_wake && driver.engine().wait(kNever) == 0;
    }));
}

// The filter came after the probe.
TEST(IoUringProbe, ARefusalAfterASuccessIsExplainedToo) {
    EXPECT_TRUE(holds_in_child([] {
        if (!probe_io_uring()) {
            return false;
        }
        forbid(__NR_io_uring_setup, EPERM);
        return is_refused("forbidden by a seccomp filter");
    }));
    EXPECT_TRUE(holds_in_child([] {
        Driver driver;
        const SocketPair pair = unix_pair();
        const SlotHandle slot = driver.attach(pair.near.get(), DescriptorKind::stream);
        forbid(__NR_io_uring_register, ENOMEM, IORING_REGISTER_PBUF_RING);
        Counted<ReceiveLentOperation> receive(driver);
        driver.submit(receive, slot);
        return driver.run_until(receive) && receive.result == -ENOMEM &&
               receive.data.system_errno() == ENOMEM;
    }));
}

}  // namespace
}  // namespace berth::internal
