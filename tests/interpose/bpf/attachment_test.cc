// SPDX-License-Identifier: Apache-2.0
// attach, detach and the agent, on a cgroup and a bpf file system of the test's own. Whatever a
// killed test leaves goes with its mount namespace, except an empty cgroup.
#include "src/interpose/bpf/attachment.h"

#include "tests/interpose/bpf/covered.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>

namespace berth::test {
namespace {

using namespace internal::bpf;

bool never() { return false; }

bool make_read_only(const std::string& mount) {
    return ::mount(nullptr, mount.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
}

// A private bpf file system below a directory of its own.
class Place {
public:
    explicit Place(std::string path) : cgroup(std::move(path)) {}
    ~Place() {
        (void)detach(pins);
        ::umount2(directory.c_str(), MNT_DETACH);
        ::rmdir(directory.c_str());
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    bool mount() {
        std::string path = (std::filesystem::temp_directory_path() / "berth-bpf-XXXXXX").string();
        if (::mkdtemp(path.data()) == nullptr) return false;
        directory = path;
        pins = path + "/berth";
        return ::unshare(CLONE_NEWNS) == 0 &&
               ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               ::mount("bpf", path.c_str(), "bpf", 0, nullptr) == 0;
    }

    std::string cgroup;
    std::string directory;
    std::string pins;
};

// Programs of berth that run for the sockets of a cgroup.
unsigned program_count(const std::string& cgroup) {
    const Descriptor directory = open_cgroup(cgroup).value();
    unsigned count = 0;
    for (const bpf_attach_type type :
         {BPF_CGROUP_INET4_BIND, BPF_CGROUP_INET6_BIND, BPF_CGROUP_INET_SOCK_RELEASE,
          BPF_CGROUP_INET4_CONNECT, BPF_CGROUP_UDP4_SENDMSG, BPF_CGROUP_INET4_POST_BIND}) {
        std::uint32_t here = 0;
        ::bpf_prog_query(directory.get(), type, 0, nullptr, nullptr, &here);
        count += here;
    }
    return count;
}

void in_place(const std::function<void(Place&)>& body) {
    in_network_namespace({.range = kSmallRange}, [&] {
        Result<ChildCgroup> cgroup = ChildCgroup::create();
        if (!cgroup) GTEST_SKIP() << cgroup.error().message();
        Place place(cgroup->path());
        if (!place.mount()) GTEST_SKIP() << "no bpf file system can be mounted here";
        const Result<Programs> programs = Programs::load();
        if (!programs) GTEST_SKIP() << programs.error().message();
        ASSERT_TRUE(succeeded(cgroup->enter()));
        body(place);
    });
}

// Returns when the agent is at work.
pid_t start_agent(const Place& place) {
    std::array<int, 2> told{};
    if (::pipe(told.data()) != 0) return -1;
    const pid_t child = ::fork();
    if (child == 0) {
        const auto tell = [&] {
            ::close(std::exchange(told[1], -1));
            return false;
        };
        ::close(told[0]);
        ::_exit(run_agent(place.pins, tell) ? 0 : 1);
    }
    char byte = 0;
    ::close(told[1]);
    (void)!::read(told[0], &byte, 1);
    ::close(told[0]);
    return child;
}

TEST(BpfAttachment, CoversACgroupUntilDetached) {
    in_place([](Place& place) {
        const Result<AttachReport> report = attach(place.cgroup, place.pins, {});
        ASSERT_TRUE(succeeded(report));
        EXPECT_EQ(report->look.namespace_count, 1U);
        EXPECT_EQ(program_count(place.cgroup), 6U);
        const Bound bound = bind_zero(Protocol::udp);
        EXPECT_EQ(bound.error, 0);
        const Maps maps = Maps::open(place.pins).value();
        EXPECT_EQ(maps.keys().size(), 2U);
        EXPECT_TRUE(succeeded(detach(place.pins)));
        EXPECT_NE(::access(place.pins.c_str(), F_OK), 0);
        EXPECT_EQ(program_count(place.cgroup), 0U);
        EXPECT_EQ(bind_zero(Protocol::udp).error, 0);
        EXPECT_TRUE(failed_with(detach(place.pins), Errc::not_holder));
    });
}

// How many instructions the verifier has followed, on all paths together.
std::uint32_t verified_count(const std::string& pin) {
    const Descriptor link(::bpf_obj_get(pin.c_str()));
    bpf_link_info link_info{};
    std::uint32_t size = sizeof(link_info);
    if (::bpf_obj_get_info_by_fd(link.get(), &link_info, &size) != 0) return 0;
    const Descriptor program(::bpf_prog_get_fd_by_id(link_info.prog_id));
    bpf_prog_info info{};
    size = sizeof(info);
    const int outcome = ::bpf_obj_get_info_by_fd(program.get(), &info, &size);
    return outcome == 0 ? info.verified_insns : 0;
}

// Trap 14: the verifier follows a loop with branches on every path, and gives up after a million
// instructions. Linux 6.18 follows 29,000 at most; 49,000 without the global function for the
// ranked choice; and with one branch in its loops it gives up.
TEST(BpfPrograms, VerifierFollowsFewPaths) {
    in_place([](Place& place) {
        ASSERT_TRUE(succeeded(attach(place.cgroup, place.pins, {})));
        for (const char* name :
             {"berth_bind4", "berth_bind6", "berth_connect4", "berth_connect6", "berth_post_bind4",
              "berth_post_bind6", "berth_sendmsg4", "berth_sendmsg6", "berth_sock_release"}) {
            const std::uint32_t count = verified_count(place.pins + "/" + name);
            EXPECT_GT(count, 0U) << name;
            EXPECT_LT(count, 40'000U) << name;
        }
    });
}

TEST(BpfAttachment, RangeAndExclusionsAreTheOptions) {
    in_place([](Place& place) {
        std::vector<Bound> all;
        const CoverOptions options{
            .range = {40010, 40019}, .rests = {}, .excluded = {{40015, 40015}}};
        ASSERT_TRUE(succeeded(attach(place.cgroup, place.pins, options)));
        for (int i = 0; i < 9; ++i) {
            all.push_back(bind_zero(Protocol::tcp));
            EXPECT_TRUE(PortRange(40010, 40019).contains(all.back().port));
            EXPECT_NE(all.back().port, 40015);
        }
    });
}

TEST(BpfAgent, EndsWhenSomebodyDetaches) {
    in_place([](Place& place) {
        ASSERT_TRUE(succeeded(attach(place.cgroup, place.pins, {})));
        const pid_t agent = start_agent(place);
        EXPECT_TRUE(failed_with(run_agent(place.pins, never), Errc::port_in_use));
        EXPECT_TRUE(failed_with(attach(place.cgroup, place.pins, {}), Errc::port_in_use));
        EXPECT_TRUE(succeeded(detach(place.pins)));
        int status = -1;
        EXPECT_EQ(::waitpid(agent, &status, 0), agent);
        EXPECT_EQ(status, 0);
        EXPECT_TRUE(failed_with(run_agent(place.pins, never), Errc::not_holder));
    });
}

TEST(BpfAgent, LooksSoonAfterPortsHaveRunOut) {
    in_place([](Place& place) {
        ASSERT_TRUE(succeeded(attach(place.cgroup, place.pins, {})));
        const pid_t agent = start_agent(place);
        // Listeners that close leave ports in a rest that only a look can end.
        EXPECT_TRUE(poll_until([] {
            std::vector<Bound> all = bind_all(Protocol::tcp);
            for (const Bound& bound : all) ::listen(bound.socket.get(), 1);
            return all.size() == kSmallRange.size();
        }));
        EXPECT_TRUE(
            poll_until([] { return bind_all(Protocol::tcp).size() == kSmallRange.size(); }));
        EXPECT_TRUE(succeeded(detach(place.pins)));
        ::waitpid(agent, nullptr, 0);
    });
}

TEST(BpfAttachment, WhatKilledProcessesLeaveIsCleanedUp) {
    in_place([](Place& place) {
        ASSERT_TRUE(succeeded(attach(place.cgroup, place.pins, {})));
        const pid_t agent = start_agent(place);
        ::kill(agent, SIGKILL);
        ::waitpid(agent, nullptr, 0);
        // Sockets go on working.
        EXPECT_EQ(bind_zero(Protocol::udp).error, 0);
        EXPECT_EQ(program_count(place.cgroup), 6U);
        ASSERT_TRUE(succeeded(attach(place.cgroup, place.pins, {})));
        EXPECT_EQ(program_count(place.cgroup), 6U);
        // An attachment that was killed half way: no settings, so nobody takes it for complete.
        ASSERT_EQ(::unlink((place.pins + "/settings").c_str()), 0);
        ASSERT_EQ(::unlink((place.pins + "/berth_bind4").c_str()), 0);
        EXPECT_TRUE(failed_with(run_agent(place.pins, never), Errc::not_holder));
        ASSERT_TRUE(succeeded(attach(place.cgroup, place.pins, {})));
        EXPECT_EQ(program_count(place.cgroup), 6U);
        ASSERT_TRUE(succeeded(detach(place.pins)));
        EXPECT_EQ(program_count(place.cgroup), 0U);
    });
}

TEST(BpfAttachment, KilledSupervisorLeavesNothingAttached) {
    in_network_namespace({.range = kSmallRange}, [] {
        std::array<int, 2> told{};
        ASSERT_EQ(::pipe(told.data()), 0);
        const pid_t child = ::fork();
        if (child == 0) {
            const Result<Cover> cover = Cover::create({});
            const std::string path = cover ? cover->cgroup().path() : "";
            (void)!::write(told[1], path.c_str(), path.size() + 1);
            ::pause();
        }
        std::array<char, 512> path{};
        ASSERT_GT(::read(told[0], path.data(), path.size() - 1), 0);
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        if (path[0] == 0) GTEST_SKIP() << "programs cannot be attached here";
        EXPECT_EQ(program_count(path.data()), 0U);
        const Result<ChildCgroup> next = ChildCgroup::create();
        EXPECT_TRUE(succeeded(next));
        EXPECT_NE(::access(path.data(), F_OK), 0);
    });
}

void make_older(const std::string& path, std::time_t seconds) {
    const timespec then{.tv_sec = ::time(nullptr) - seconds, .tv_nsec = 0};
    const std::array<timespec, 2> times{then, then};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
}

pid_t start_sleeper(const std::string& cgroup) {
    const pid_t child = ::fork();
    if (child == 0) {
        while (true) ::pause();
    }
    std::ofstream(cgroup + "/cgroup.procs") << child << std::flush;
    return child;
}

// Of a run in another pid namespace: whether it lives cannot be told.
TEST(BpfAttachment, CgroupFromElsewhereIsRemovedWhenItIsEmptyAndOld) {
    in_place([](Place& place) {
        const std::string path = place.cgroup + "/berth-run.1-1.1";
        ASSERT_EQ(::mkdir(path.c_str(), 0755), 0);
        make_older(path, 300);
        EXPECT_TRUE(succeeded(ChildCgroup::create()));
        EXPECT_EQ(::access(path.c_str(), F_OK), 0) << "somebody may be about to enter";
        make_older(path, 3'600);
        const pid_t sleeper = start_sleeper(path);
        EXPECT_TRUE(succeeded(ChildCgroup::create()));
        EXPECT_EQ(::access(path.c_str(), F_OK), 0) << "there is a process in it";
        ::kill(sleeper, SIGKILL);
        ::waitpid(sleeper, nullptr, 0);
        EXPECT_TRUE(poll_until([&] {
            return ChildCgroup::create().has_value() && ::access(path.c_str(), F_OK) != 0;
        }));
    });
}

TEST(BpfAttachment, SaysWhatIsWrong) {
    in_place([](Place& place) {
        const auto missing = attach("/sys/fs/cgroup/no-such-cgroup", place.pins, {});
        EXPECT_TRUE(failed_with(missing, Errc::invalid_argument));
        EXPECT_TRUE(failed_with(attach("/tmp", place.pins, {}), Errc::invalid_argument));
        EXPECT_TRUE(failed_with(attach(place.cgroup, "/tmp/berth", {}), Errc::unsupported));
        EXPECT_TRUE(failed_with(run_agent(place.pins, never), Errc::not_holder));
        EXPECT_TRUE(failed_with(detach("/tmp"), Errc::invalid_argument));
        EXPECT_NE(::access(place.pins.c_str(), F_OK), 0);
    });
}

// As in a container: it is root, and that does not help.
TEST(BpfAttachment, ReadOnlyCgroupsAreNamedWithTheRemedy) {
    in_place([](Place& place) {
        const std::string mount = cgroup_mount().value();
        ASSERT_EQ(::mount(mount.c_str(), mount.c_str(), nullptr, MS_BIND, nullptr), 0);
        ASSERT_TRUE(make_read_only(mount));
        const Result<Cover> cover = Cover::create({});
        const auto report = attach(place.cgroup, place.pins, {});  // writes nothing there
        ASSERT_EQ(::umount2(mount.c_str(), MNT_DETACH), 0);
        EXPECT_TRUE(succeeded(report));
        ASSERT_TRUE(failed_with(cover, Errc::permission_denied));
        const std::string message = cover.error().message();
        EXPECT_NE(message.find(mount + ":"), std::string::npos) << message;
        EXPECT_NE(message.find("remount,rw"), std::string::npos) << message;
        EXPECT_EQ(message.find("root"), std::string::npos) << message;
    });
}

TEST(BpfAttachment, ReadOnlyPinsAreNamedWithTheRemedy) {
    in_place([](Place& place) {
        ASSERT_TRUE(make_read_only(place.directory));
        const auto report = attach(place.cgroup, place.pins, {});
        ASSERT_TRUE(failed_with(report, Errc::permission_denied));
        EXPECT_NE(report.error().message().find("read-only"), std::string::npos);
    });
}

TEST(BpfAttachment, TableOfAnotherVersionIsRefused) {
    in_place([](Place& place) {
        ASSERT_TRUE(succeeded(attach(place.cgroup, place.pins, {})));
        const Maps maps = Maps::open(place.pins).value();
        berth_settings settings = maps.read_settings().value();
        settings.version = BERTH_TABLE_VERSION + 1;
        ASSERT_TRUE(succeeded(maps.write_settings(settings)));
        EXPECT_TRUE(failed_with(run_agent(place.pins, never), Errc::table_mismatch));
        EXPECT_TRUE(succeeded(detach(place.pins)));
    });
}

TEST(BpfAttachment, WithoutPrivilegesItSaysWhatIsNeeded) {
    in_network_namespace({.range = kSmallRange, .drop_privileges = true}, [] {
        const Result<Programs> programs = Programs::load();
        ASSERT_FALSE(programs);
        if (programs.error().code() == Errc::unsupported) {
            GTEST_SKIP() << programs.error().message();
        }
        EXPECT_TRUE(failed_with(programs, Errc::permission_denied));
        EXPECT_NE(programs.error().message().find("CAP_BPF"), std::string::npos);
    });
}

// As Cilium has one: return 1, "go on".
Descriptor foreign_program() {
    const std::array<bpf_insn, 2> go_on{
        bpf_insn{
            .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 1},
        bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
    bpf_prog_load_opts options{};
    options.sz = sizeof(options);
    options.expected_attach_type = BPF_CGROUP_INET4_BIND;
    return Descriptor(::bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "foreign_bind4", "GPL",
                                      go_on.data(), go_on.size(), &options));
}

TEST(BpfAttachment, StandsBesideProgramsOfOthers) {
    in_place([](Place& place) {
        const Descriptor foreign = foreign_program();
        ASSERT_TRUE(foreign.is_open());
        const Descriptor cgroup = open_cgroup(place.cgroup).value();
        ASSERT_EQ(::bpf_prog_attach(foreign.get(), cgroup.get(), BPF_CGROUP_INET4_BIND,
                                    BPF_F_ALLOW_MULTI),
                  0);
        const Result<AttachReport> report = attach(place.cgroup, place.pins, {});
        ASSERT_TRUE(succeeded(report));
        ASSERT_EQ(report->other_programs.size(), 1U);
        EXPECT_EQ(report->other_programs[0], "bind4 foreign_bind4");
        EXPECT_EQ(bind_zero(Protocol::udp).error, 0);
        EXPECT_EQ(bind_all(Protocol::udp).size(), kSmallRange.size());
        ::bpf_prog_detach2(foreign.get(), cgroup.get(), BPF_CGROUP_INET4_BIND);
    });
}

TEST(BpfAttachment, ProgramThatHoldsTheCgroupAloneIsNotPushedAside) {
    in_place([](Place& place) {
        const Descriptor foreign = foreign_program();
        ASSERT_TRUE(foreign.is_open());
        const Descriptor cgroup = open_cgroup(place.cgroup).value();
        ASSERT_EQ(::bpf_prog_attach(foreign.get(), cgroup.get(), BPF_CGROUP_INET4_BIND, 0), 0);
        EXPECT_TRUE(failed_with(attach(place.cgroup, place.pins, {}), Errc::permission_denied));
        EXPECT_EQ(program_count(place.cgroup), 1U);
        ::bpf_prog_detach2(foreign.get(), cgroup.get(), BPF_CGROUP_INET4_BIND);
    });
}

}  // namespace
}  // namespace berth::test
