// SPDX-License-Identifier: Apache-2.0
#include "cli/run/program_file.h"

#include "cli/run/exit_codes.h"

#include <berth/descriptor.h>

#include <fmt/format.h>

#include <elf.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace berth::cli {
namespace {

// As the kernel: a script may name another script as its interpreter, so many times.
constexpr unsigned kInterpreterLimit = 5;

std::unexpected<ProgramRefusal> refuse(int status, const std::string& message) {
    return std::unexpected(ProgramRefusal{status, "berth run: " + message});
}

bool is_directory(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::expected<std::string, ProgramRefusal> check_file(const std::string& path) {
    if (is_directory(path)) {
        return refuse(kNotRunnable, fmt::format("{} is a directory", path));
    }
    if (::access(path.c_str(), X_OK) != 0) {
        const int reason = errno;
        return refuse(exit_code_of_start(reason),
                      fmt::format("{}: {}", path, std::strerror(reason)));
    }
    return path;
}

/// Reads of a file by position; short reads are no data.
class Bytes {
public:
    explicit Bytes(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    bool is_open() const { return file_.is_open(); }

    template <class T>
    bool read(std::uint64_t offset, T& into) const {
        return ::pread(file_.get(), &into, sizeof into, static_cast<off_t>(offset)) ==
               static_cast<ssize_t>(sizeof into);
    }
    std::string read_text(std::uint64_t offset, std::size_t size) const {
        std::string text(size, '\0');
        const ssize_t got = ::pread(file_.get(), text.data(), size, static_cast<off_t>(offset));
        text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        return text;
    }

private:
    Descriptor file_;
};

bool is_of_this_machine(const Elf64_Ehdr& header) {
    Elf64_Ehdr own{};
    const Bytes self("/proc/self/exe");
    return header.e_ident[EI_CLASS] == ELFCLASS64 &&
           (!self.read(0, own) ||
            (own.e_machine == header.e_machine && own.e_ident[EI_DATA] == header.e_ident[EI_DATA]));
}

bool has_interpreter(const Bytes& file, const Elf64_Ehdr& header) {
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment{};
        if (!file.read(header.e_phoff + std::uint64_t{i} * header.e_phentsize, segment)) break;
        if (segment.p_type == PT_INTERP) return true;
    }
    return false;
}

// Go's linker leaves a section of this name; stripping does not take it away.
bool has_go_section(const Bytes& file, const Elf64_Ehdr& header) {
    Elf64_Shdr names{};
    if (header.e_shentsize != sizeof names ||
        !file.read(header.e_shoff + std::uint64_t{header.e_shstrndx} * sizeof names, names)) {
        return false;
    }
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section{};
        if (!file.read(header.e_shoff + std::uint64_t{i} * sizeof section, section)) break;
        const std::string name = file.read_text(names.sh_offset + section.sh_name, 20);
        const auto text = std::string_view(name).substr(0, name.find('\0'));
        if (text == ".go.buildinfo" || text == ".note.go.buildid") {
            return true;
        }
    }
    return false;
}

// The linker's secure mode begins where exec() gains something. With no_new_privs it gains no user
// and no group, but begins with file capabilities all the same (cap_bprm_creds_from_file).
bool is_privileged(const std::string& path) {
    struct stat status{};
    struct statvfs system{};
    if (::stat(path.c_str(), &status) != 0 || ::statvfs(path.c_str(), &system) != 0 ||
        (system.f_flag & ST_NOSUID) != 0) {
        return false;
    }
    const bool may_change = ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
    const bool gains_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid();
    const bool gains_group = (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 &&
                             status.st_gid != ::getgid();
    const bool gains_capability =
        ::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
    return (may_change && (gains_user || gains_group)) || gains_capability;
}

// "#! /usr/bin/env python3" → "/usr/bin/env"; empty when it is no script.
std::string interpreter_of(const Bytes& file) {
    std::string line = file.read_text(0, 256);
    if (!line.starts_with("#!")) {
        return {};
    }
    line = line.substr(2, line.find('\n') == std::string::npos ? line.npos : line.find('\n') - 2);
    const std::size_t start = line.find_first_not_of(" \t");
    if (start == std::string::npos) {
        return {};
    }
    return line.substr(start, line.find_first_of(" \t", start) - start);
}

ProgramKind kind_of_elf(const Bytes& file, const Elf64_Ehdr& header, const std::string& path) {
    if (!is_of_this_machine(header)) {
        return ProgramKind::foreign;
    }
    if (has_go_section(file, header)) {
        return ProgramKind::go_binary;
    }
    if (!has_interpreter(file, header)) {
        return ProgramKind::static_binary;
    }
    return is_privileged(path) ? ProgramKind::privileged : ProgramKind::enterable;
}

}  // namespace

std::expected<std::string, ProgramRefusal> find_program(const std::string& name) {
    if (name.empty()) {
        return refuse(kNotFound, "the program's name is empty");
    }
    if (name.contains('/')) {
        return check_file(name);
    }
    const char* variable = ::getenv("PATH");
    const std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
    std::string not_runnable;
    for (std::size_t start = 0; start <= path.size();) {
        const std::size_t colon = std::min(path.find(':', start), path.size());
        const std::string directory = path.substr(start, colon - start);
        std::string candidate = (directory.empty() ? "." : directory) + "/" + name;
        if (::access(candidate.c_str(), X_OK) == 0 && !is_directory(candidate)) {
            return candidate;
        }
        if (::access(candidate.c_str(), F_OK) == 0 && !is_directory(candidate)) {
            not_runnable = candidate;
        }
        start = colon + 1;
    }
    if (!not_runnable.empty()) {
        return refuse(kNotRunnable, fmt::format("{}: {}", not_runnable, std::strerror(EACCES)));
    }
    return refuse(kNotFound, fmt::format("{}: not found in PATH", name));
}

ProgramFile examine_program(const std::string& path) {
    std::string current = path;
    for (unsigned i = 0; i < kInterpreterLimit; ++i) {
        const Bytes file(current);
        if (const std::string interpreter = interpreter_of(file); !interpreter.empty()) {
            current = interpreter;
            continue;
        }
        Elf64_Ehdr header{};
        if (!file.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) break;
        return {kind_of_elf(file, header, current), current};
    }
    return {ProgramKind::unreadable, current};
}

std::expected<void, ProgramRefusal> check_enterable(const ProgramFile& file) {
    constexpr int kUnsupported = static_cast<int>(ExitCode::unsupported);
    switch (file.kind) {
        case ProgramKind::static_binary:
            return refuse(kUnsupported,
                          fmt::format("{} is statically linked: berth cannot enter it by preload; "
                                      "as root, 'berth run --bpf' covers it",
                                      file.path));
        case ProgramKind::go_binary:
            return refuse(kUnsupported,
                          fmt::format("{} is a Go program: it makes its system calls itself, so "
                                      "berth cannot enter it by preload; as root, 'berth run "
                                      "--bpf' covers it",
                                      file.path));
        case ProgramKind::privileged:
            return refuse(kUnsupported,
                          fmt::format("{} is setuid, setgid or has file capabilities: the dynamic "
                                      "linker lets nothing into it; run berth as the user it "
                                      "becomes",
                                      file.path));
        case ProgramKind::foreign:
            return refuse(kUnsupported,
                          fmt::format("{} is for another architecture than berth; use a berth that "
                                      "was built for it",
                                      file.path));
        case ProgramKind::enterable:
        case ProgramKind::unreadable:
            break;
    }
    return {};
}

}  // namespace berth::cli
