// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/probe.h"

#include "tests/engine/io_uring/engine_driver.h"
#include "tests/support/forbidden_call.h"

#include <sys/mount.h>
#include <sys/syscall.h>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <iostream>
#include <string>

namespace berth::internal {
namespace {

using test::forbid;

/// As test::holds_in_child(), with nothing remembered of an earlier probe.
[[nodiscard]] bool holds_in_child(const std::function<bool()>& body) {
    return test::holds_in_child([&] {
        forget_io_uring_probe();
        return body();
    });
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
