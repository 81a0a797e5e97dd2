// SPDX-License-Identifier: Apache-2.0
// The other tests skip where programs cannot be loaded. This one does not, where the fault is ours.
#include "src/interpose/bpf/programs.h"

#include <bpf/bpf.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <array>

namespace berth::test {
namespace {

// "return 1", at one of the hooks that berth uses.
bool loads_any_program() {
    constexpr std::array kReturnOne{
        bpf_insn{
            .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 1},
        bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
    bpf_prog_load_opts options{};
    options.sz = sizeof(options);
    options.expected_attach_type = BPF_CGROUP_INET4_BIND;
    const Descriptor program(::bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "any", "GPL",
                                             kReturnOne.data(), kReturnOne.size(), &options));
    return program.is_open();
}

TEST(BpfPrograms, VerifierTakesOursWhereItTakesAny) {
    if (!loads_any_program()) GTEST_SKIP() << "no program can be loaded here";
    const auto programs = internal::bpf::Programs::load();
    if (!programs && !programs.error().message().contains("refuses")) {
        GTEST_SKIP() << programs.error().message();
    }
    EXPECT_TRUE(programs) << programs.error().message();
}

}  // namespace
}  // namespace berth::test
