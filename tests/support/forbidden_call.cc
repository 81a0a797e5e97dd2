// SPDX-License-Identifier: Apache-2.0
#include "tests/support/forbidden_call.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iostream>

namespace berth::test {

void forbid(long number, int error, unsigned argument) {
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

bool holds_in_child(const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(body() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace berth::test
