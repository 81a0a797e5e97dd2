// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/bpf/programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <string_view>
#include <utility>

#include "berth.skel.h"

namespace berth::internal::bpf {
namespace {

constexpr const char* kLoad = "load programs";
constexpr const char* kNeedsPrivileges =
    "this needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON";

// What libbpf says is for its developers; errno is what we go by.
int say_nothing(libbpf_print_level, const char*, va_list) { return 0; }

bool is_kernel_at_least(int major, int minor) {
    utsname name{};
    ::uname(&name);
    const std::string_view release = name.release;
    const char* end = release.data() + release.size();
    int found_major = 0;
    int found_minor = 0;
    const char* dot = std::from_chars(release.data(), end, found_major).ptr;
    if (dot != end) std::from_chars(dot + 1, end, found_minor);
    return std::pair(found_major, found_minor) >= std::pair(major, minor);
}

Result<void> check_kernel() {
    if (!is_kernel_at_least(5, 18)) {
        return std::unexpected(Error(Errc::unsupported, kLoad, {}, 0,
                                     "this kernel is older than 5.18 (bpf_set_retval)"));
    }
    if (::access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
        return std::unexpected(Error(Errc::unsupported, kLoad, "/sys/kernel/btf/vmlinux", errno,
                                     "the kernel does not describe its types",
                                     "it must be built with CONFIG_DEBUG_INFO_BTF"));
    }
    return {};
}

// Of an enumeration without a name: a relocation needs one.
int enumerator_value(const btf* types, std::string_view wanted) {
    const auto count = static_cast<unsigned>(::btf__type_cnt(types));
    for (unsigned id = 1; id < count; ++id) {
        const btf_type* type = ::btf__type_by_id(types, id);
        if (!::btf_is_enum(type)) continue;
        const struct btf_enum* each = ::btf_enum(type);
        for (unsigned i = 0; i < ::btf_vlen(type); ++i) {
            if (wanted == ::btf__name_by_offset(types, each[i].name_off)) return each[i].val;
        }
    }
    return -1;
}

int bind_address_no_port_bit() {
    btf* types = ::btf__load_vmlinux_btf();
    if (types == nullptr) return -1;
    const int bit = enumerator_value(types, "INET_FLAGS_BIND_ADDRESS_NO_PORT");
    ::btf__free(types);
    return bit;
}

Error load_failure(int system_errno) {
    // EACCES is also the verifier's answer; before it comes to that, root is told EPERM.
    if (system_errno == EPERM || (system_errno == EACCES && ::geteuid() != 0)) {
        return Error::from_errno(system_errno, kLoad, {}, kNeedsPrivileges);
    }
    return Error(Errc::unsupported, kLoad, {}, system_errno, "the kernel refuses them",
                 "CONFIG_CGROUP_BPF, or a lockdown that forbids reading kernel memory?");
}

Result<Descriptor> duplicate(const bpf_map* map) {
    Descriptor copy(::fcntl(::bpf_map__fd(map), F_DUPFD_CLOEXEC, 3));
    if (!copy.is_open()) {
        return std::unexpected(Error::from_errno(errno, kLoad));
    }
    return copy;
}

std::array<bpf_program*, 9> programs_of(const berth_bpf& object) {
    const auto& progs = object.progs;
    // What takes note comes before what chooses, so that no choice goes unnoted.
    return {progs.berth_sock_release, progs.berth_post_bind4, progs.berth_post_bind6,
            progs.berth_sendmsg4,     progs.berth_sendmsg6,   progs.berth_bind4,
            progs.berth_bind6,        progs.berth_connect4,   progs.berth_connect6};
}

struct Hook {
    bpf_attach_type type;
    const char* name;
};
constexpr std::array kHooks{
    Hook{BPF_CGROUP_INET4_BIND, "bind4"},       Hook{BPF_CGROUP_INET6_BIND, "bind6"},
    Hook{BPF_CGROUP_INET4_CONNECT, "connect4"}, Hook{BPF_CGROUP_INET6_CONNECT, "connect6"},
    Hook{BPF_CGROUP_UDP4_SENDMSG, "sendmsg4"},  Hook{BPF_CGROUP_UDP6_SENDMSG, "sendmsg6"}};

std::string name_of_program(std::uint32_t id) {
    const Descriptor program(::bpf_prog_get_fd_by_id(id));
    bpf_prog_info info{};
    std::uint32_t size = sizeof(info);
    if (!program.is_open() || ::bpf_obj_get_info_by_fd(program.get(), &info, &size) != 0) {
        return {};
    }
    return info.name;
}

}  // namespace

void Programs::Unload::operator()(berth_bpf* object) const noexcept {
    ::berth_bpf__destroy(object);
}
void Programs::Detach::operator()(bpf_link* link) const noexcept { ::bpf_link__destroy(link); }

Result<Programs> Programs::load() {
    BERTH_TRY(check_kernel());
    ::libbpf_set_print(say_nothing);
    Programs made(::berth_bpf__open());
    if (made.object_ == nullptr) {
        return std::unexpected(load_failure(errno));
    }
    made.object_->rodata->bind_address_no_port_bit = bind_address_no_port_bit();
    const int outcome = ::berth_bpf__load(made.object_.get());
    if (outcome != 0) {
        return std::unexpected(load_failure(-outcome));
    }
    return made;
}

Result<Maps> Programs::maps() const {
    Maps maps;
    maps.tables = BERTH_TRY(duplicate(object_->maps.tables));
    maps.pairs = BERTH_TRY(duplicate(object_->maps.pairs));
    maps.settings = BERTH_TRY(duplicate(object_->maps.settings));
    return maps;
}

Result<void> Programs::attach(const Descriptor& cgroup) {
    for (bpf_program* program : programs_of(*object_)) {
        bpf_link* link = ::bpf_program__attach_cgroup(program, cgroup.get());
        if (link == nullptr) {
            return std::unexpected(
                Error::from_errno(errno, "attach programs", ::bpf_program__name(program),
                                  "another program may hold this cgroup for itself alone: see "
                                  "'bpftool cgroup tree'"));
        }
        links_.emplace_back(link);
    }
    return {};
}

Result<void> Programs::pin(const std::string& directory) const {
    const auto pin_failure = [](int outcome, const std::string& path) {
        return std::unexpected(Error::from_errno(-outcome, "pin", path));
    };
    const auto programs = programs_of(*object_);
    for (std::size_t i = 0; i < links_.size(); ++i) {
        const std::string path = directory + "/" + ::bpf_program__name(programs.at(i));
        if (const int outcome = ::bpf_link__pin(links_[i].get(), path.c_str()); outcome != 0) {
            return pin_failure(outcome, path);
        }
    }
    // The settings last: with them the attachment is complete.
    for (bpf_map* map : {object_->maps.tables, object_->maps.pairs, object_->maps.settings}) {
        const std::string path = directory + "/" + ::bpf_map__name(map);
        if (const int outcome = ::bpf_map__pin(map, path.c_str()); outcome != 0) {
            return pin_failure(outcome, path);
        }
    }
    return {};
}

std::vector<std::string> other_programs(const Descriptor& cgroup) {
    std::vector<std::string> found;
    for (const Hook& hook : kHooks) {
        std::array<std::uint32_t, 64> ids{};
        std::uint32_t flags = 0;
        std::uint32_t count = ids.size();
        if (::bpf_prog_query(cgroup.get(), hook.type, BPF_F_QUERY_EFFECTIVE, &flags, ids.data(),
                             &count) != 0) {
            continue;
        }
        for (std::uint32_t i = 0; i < count && i < ids.size(); ++i) {
            const std::string name = name_of_program(ids.at(i));
            if (!name.starts_with("berth_")) found.push_back(std::string(hook.name) + " " + name);
        }
    }
    return found;
}

}  // namespace berth::internal::bpf
