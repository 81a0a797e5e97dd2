// SPDX-License-Identifier: Apache-2.0
// The other tests skip where programs cannot be loaded. This one does not, where the fault is ours.
#include "src/interpose/bpf/programs.h"

#include <bpf/bpf.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace berth::test {
namespace {

struct Hook {
    bpf_prog_type type;
    bpf_attach_type attach_type;
};
constexpr Hook kBind{BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_BIND};
constexpr Hook kPostBind{BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET4_POST_BIND};
constexpr Hook kRelease{BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET_SOCK_RELEASE};

constexpr bpf_insn instruction(std::uint8_t code, unsigned to, unsigned from, std::int16_t offset,
                               std::int32_t number) {
    return {.code = code,
            .dst_reg = static_cast<std::uint8_t>(to & 0xFU),
            .src_reg = static_cast<std::uint8_t>(from & 0xFU),
            .off = offset,
            .imm = number};
}
constexpr bpf_insn set_number(unsigned to, std::int32_t number) {
    return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number);
}
constexpr bpf_insn set_register(unsigned to, unsigned from) {
    return instruction(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
constexpr bpf_insn kExit = instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);

bool loads(const Hook& hook, std::span<const bpf_insn> instructions) {
    bpf_prog_load_opts options{};
    options.sz = sizeof(options);
    options.expected_attach_type = hook.attach_type;
    const Descriptor program(::bpf_prog_load(hook.type, "any", "GPL", instructions.data(),
                                             instructions.size(), &options));
    return program.is_open();
}

constexpr std::array kReturnOne{set_number(BPF_REG_0, 1), kExit};

// bpf_probe_read_kernel(fp - 8, 8, sk); return 1
constexpr std::array kReadsKernelMemory{
    set_register(BPF_REG_3, BPF_REG_1),
    set_register(BPF_REG_1, BPF_REG_10),
    instruction(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_1, 0, 0, -8),
    set_number(BPF_REG_2, 8),
    instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_probe_read_kernel),
    set_number(BPF_REG_0, 1),
    kExit};

// sk->src_port; return 1
constexpr std::array kReadsPort{
    instruction(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_0, BPF_REG_1, offsetof(bpf_sock, src_port), 0),
    set_number(BPF_REG_0, 1), kExit};

void expect_ours_load() {
    const auto programs = internal::bpf::Programs::load();
    if (!programs && programs.error().code() == Errc::unsupported &&
        !programs.error().message().contains("refuses")) {
        GTEST_SKIP() << programs.error().message();
    }
    EXPECT_TRUE(programs) << programs.error().message();
}

// Trap 14: it has given up on a version whose loops had branches.
TEST(BpfPrograms, VerifierTakesOursWhereItTakesAny) {
    if (!loads(kBind, kReturnOne) || !loads(kRelease, kReadsKernelMemory)) {
        GTEST_SKIP() << "no program can be loaded here";
    }
    expect_ours_load();
}

// Trap 3: src_port is there after bind(), not at the release; ours look into the socket itself.
TEST(BpfPrograms, PortIsReadWhereTheHookDoesNotShowIt) {
    if (!loads(kPostBind, kReadsPort) || !loads(kRelease, kReadsKernelMemory)) {
        GTEST_SKIP() << "no program can be loaded here";
    }
    if (loads(kRelease, kReadsPort)) GTEST_SKIP() << "this kernel shows the port at the release";
    expect_ours_load();
}

}  // namespace
}  // namespace berth::test
