// SPDX-License-Identifier: Apache-2.0
#include "src/ports/table_memory.h"

#include "src/base/kernel_constants.h"
#include "src/base/process.h"
#include "src/base/system_calls.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace berth::internal {
namespace {

constexpr const char* kOpen = "open port table";

Result<std::uint64_t> read_netns_cookie() {
    const Descriptor socket(calls().socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) {
        return std::unexpected(Error::from_errno(errno, "socket", "udp"));
    }
    std::uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    if (calls().getsockopt(socket.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) != 0) {
        return std::unexpected(Error(Errc::unsupported, "identify network namespace", {}, errno,
                                     "the kernel has no SO_NETNS_COOKIE",
                                     "a shared table needs Linux 5.14"));
    }
    return cookie;
}

void read_boot_id(std::uint64_t (&id)[2]) noexcept {
    id[0] = id[1] = 0;
    const Descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    char text[36];
    if (file.is_open() && ::read(file.get(), text, sizeof text) == sizeof text) {
        unsigned digit = 0;
        for (const char c : text) {
            if (c == '-') continue;
            const auto value = static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
            std::uint64_t& half = id[digit / 16];
            half = half << 4 | value;
            digit = digit == 31 ? 31 : digit + 1;
        }
    }
}

// The places that a table belongs to: this boot, this network namespace, this pid namespace.
Result<void> fill_home(TableConstants& constants) {
    constants.netns_cookie = BERTH_TRY(read_netns_cookie());
    constants.pidns_inode = own_pid_namespace();
    read_boot_id(constants.boot_id);
    return {};
}

Result<void> fill_constants(TableConstants& constants, const TableSetup& setup, bool is_shared) {
    std::memset(&constants, 0, sizeof constants);
    constants.magic = TableHeader::kMagic;
    constants.version = TableHeader::kVersion;
    constants.protocol = static_cast<std::uint32_t>(setup.protocol);
    constants.size = sizeof(TableLayout);
    if (is_shared) {
        BERTH_TRY(fill_home(constants));
    }
    constants.rest_period_ms = setup.rest_period_ms;
    constants.explicit_first = setup.explicit_range.first;
    constants.explicit_last = setup.explicit_range.last;
    constants.honours_reserved = setup.honours_reserved ? 1 : 0;
    constants.checksum = checksum_of(constants);
    return {};
}

std::unexpected<Error> damaged(std::string_view subject, const char* reason) {
    return std::unexpected(
        Error(Errc::table_damaged, kOpen, subject, 0, reason,
              "remove it when nobody uses it; the next program makes a new one"));
}

std::unexpected<Error> mismatch(std::string_view subject, const char* reason, const char* remedy) {
    return std::unexpected(Error(Errc::table_mismatch, kOpen, subject, 0, reason, remedy));
}

Result<void> check_home(const TableConstants& found, std::string_view subject) {
    TableConstants here{};
    BERTH_TRY(fill_home(here));
    if (std::memcmp(found.boot_id, here.boot_id, sizeof here.boot_id) != 0) {
        return mismatch(subject, "it was made before the last boot",
                        "remove it; the next program makes a new one");
    }
    if (found.netns_cookie != here.netns_cookie) {
        return mismatch(subject, "it belongs to another network namespace",
                        "use one file for each network namespace");
    }
    if (found.pidns_inode != here.pidns_inode) {
        return mismatch(subject,
                        "it belongs to another pid namespace, whose processes are not "
                        "visible from here",
                        "use one file for each pid namespace");
    }
    return {};
}

Result<void> check(const TableLayout& layout, Protocol protocol, std::string_view subject) {
    const TableConstants& found = layout.header.constants;
    if (found.magic != TableHeader::kMagic) {
        return damaged(subject, "it is not a port table");
    }
    if (found.version != TableHeader::kVersion || found.size != sizeof(TableLayout)) {
        return mismatch(subject, "it was made by another version of berth",
                        "use the same version everywhere, or another file");
    }
    if (found.checksum != checksum_of(found)) {
        return damaged(subject, "its header is damaged");
    }
    if (found.protocol != static_cast<std::uint32_t>(protocol)) {
        return mismatch(subject, "it serves the other protocol",
                        "use one file for udp and another for tcp");
    }
    if (layout.header.is_ready.load(std::memory_order_acquire) == 0) {
        return damaged(subject, "it was never finished");
    }
    if (!unpack_range(layout.header.range.load(std::memory_order_acquire)).is_valid()) {
        return damaged(subject, "its port range is not valid");
    }
    return check_home(found, subject);
}

Result<void> check_file(int fd, const std::string& path) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) {
        return std::unexpected(Error::from_errno(errno, kOpen, path));
    }
    if (!S_ISREG(status.st_mode)) {
        return std::unexpected(Error(Errc::invalid_argument, kOpen, path, 0,
                                     "it is not a regular file", "name a file, as in /dev/shm"));
    }
    if (status.st_uid != ::geteuid()) {
        return std::unexpected(Error(Errc::permission_denied, kOpen, path, 0,
                                     "it belongs to another user", "use a file of your own"));
    }
    if ((status.st_mode & 0777) != 0600) {
        return std::unexpected(Error(Errc::permission_denied, kOpen, path, 0,
                                     "others may read or write it", "chmod 600 it, or remove it"));
    }
    return {};
}

// Locks the file while its table is made; a maker that dies lets go of it. Returns the file's size,
// which is 0 or that of a table.
Result<std::uint64_t> lock_file(int fd, const std::string& path) {
    BERTH_TRY(check_file(fd, path));
    while (::flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR) return std::unexpected(Error::from_errno(errno, "lock", path));
    }
    struct stat status{};
    if (::fstat(fd, &status) != 0) {
        return std::unexpected(Error::from_errno(errno, kOpen, path));
    }
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size != 0 && size != sizeof(TableLayout)) {
        return damaged(path, "it has the wrong size for a port table of this version");
    }
    return size;
}

Result<void> resize(int fd, std::string_view subject) {
    if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, sizeof(TableLayout)) != 0) {
        return std::unexpected(Error::from_errno(errno, "make port table", subject));
    }
    // A page without room behind it would kill whoever touches it first.
    if (const int reason = ::posix_fallocate(fd, 0, sizeof(TableLayout)); reason != 0) {
        static_cast<void>(::ftruncate(fd, 0));
        return std::unexpected(
            Error::from_errno(reason, "make port table", subject, "it needs 10 MB of room there"));
    }
    return {};
}

}  // namespace

TableMemory::~TableMemory() {
    if (layout_ != nullptr) {
        ::munmap(layout_, sizeof(TableLayout));
    }
}

Result<TableMemory> TableMemory::map(Descriptor memory, std::string_view subject) {
    const int flags = memory.is_open() ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* address =
        ::mmap(nullptr, sizeof(TableLayout), PROT_READ | PROT_WRITE, flags, memory.get(), 0);
    if (address == MAP_FAILED) {
        return std::unexpected(Error::from_errno(errno, "map port table", subject));
    }
    return TableMemory(static_cast<TableLayout*>(address), std::move(memory), true);
}

Result<TableMemory> TableMemory::create_private(const TableSetup& setup) {
    TableMemory memory = BERTH_TRY(map(Descriptor(), "in process memory"));
    BERTH_TRY(fill_constants(memory.layout().header.constants, setup, false));
    return memory;
}

Result<TableMemory> TableMemory::create_memfd(const TableSetup& setup) {
    Descriptor memory(::memfd_create("berth-ports", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory.is_open()) {
        return std::unexpected(Error::from_errno(errno, "memfd_create", "berth-ports"));
    }
    BERTH_TRY(resize(memory.get(), "memfd"));
    // Nobody who gets the descriptor can pull the memory away from under the others.
    if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return std::unexpected(Error::from_errno(errno, "seal port table", "memfd"));
    }
    TableMemory table = BERTH_TRY(map(std::move(memory), "memfd"));
    BERTH_TRY(fill_constants(table.layout().header.constants, setup, true));
    return table;
}

Result<TableMemory> TableMemory::open_file(const std::string& path, const TableSetup& setup) {
    Descriptor file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!file.is_open()) {
        return std::unexpected(Error::from_errno(errno, kOpen, path));
    }
    const bool is_empty = BERTH_TRY(lock_file(file.get(), path)) == 0;
    if (is_empty) {
        BERTH_TRY(resize(file.get(), path));
    }
    TableMemory table = BERTH_TRY(map(std::move(file), path));
    const TableHeader& header = table.layout().header;
    // Not ready although nobody holds the lock: its maker died. Only then is it made anew.
    const bool is_abandoned =
        header.is_ready.load(std::memory_order_acquire) == 0 &&
        (header.constants.magic == 0 || header.constants.magic == TableHeader::kMagic);
    if (!is_abandoned) {
        BERTH_TRY(check(table.layout(), setup.protocol, path));
        table.is_new_ = false;
        ::flock(table.descriptor(), LOCK_UN);
        return table;
    }
    if (!is_empty) {
        BERTH_TRY(resize(table.descriptor(), path));
    }
    BERTH_TRY(fill_constants(table.layout().header.constants, setup, true));
    return table;
}

Result<TableMemory> TableMemory::attach(Descriptor memory, Protocol protocol) {
    struct stat status{};
    if (::fstat(memory.get(), &status) != 0) {
        return std::unexpected(Error::from_errno(errno, kOpen, "descriptor"));
    }
    if (static_cast<std::uint64_t>(status.st_size) != sizeof(TableLayout)) {
        return damaged("descriptor", "it has the wrong size for a port table of this version");
    }
    const int seals = ::fcntl(memory.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
        return damaged("descriptor", "it is not a sealed memfd, so it may be pulled away");
    }
    TableMemory table = BERTH_TRY(map(std::move(memory), "descriptor"));
    BERTH_TRY(check(table.layout(), protocol, "descriptor"));
    table.is_new_ = false;
    return table;
}

void TableMemory::publish() noexcept {
    layout_->header.is_ready.store(1, std::memory_order_release);
    if (descriptor_.is_open()) {
        ::flock(descriptor_.get(), LOCK_UN);
    }
}

}  // namespace berth::internal
