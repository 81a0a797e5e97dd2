// SPDX-License-Identifier: Apache-2.0
// Before main(): maps what `berth run` has prepared. Whatever is not as expected ends it, and the
// program runs as if berth were not there.
#include "src/interpose/preload/guest.h"
#include "src/interpose/preload/holding.h"
#include "src/interpose/preload/next_calls.h"
#include "src/interpose/preload/socket_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>

namespace berth::internal {
namespace {

constexpr unsigned kDescriptorLimit = 1'048'576;
// A program that starts with more descriptors than this, or with sockets far above the others,
// keeps its ports all the same: they are the table's until the supervisor finds them closed.
constexpr unsigned kInheritedLimit = 4'096;

// A file of the run: ours, of the right size, and no one else's to write.
void* map_file(const char* path, std::size_t size) noexcept {
    const int file = ::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) {
        return nullptr;
    }
    struct stat status{};
    const bool is_right = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                          status.st_uid == ::geteuid() && (status.st_mode & 0777) == 0600 &&
                          static_cast<std::size_t>(status.st_size) == size;
    void* memory =
        is_right ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    next_calls.close(file);
    return memory == MAP_FAILED ? nullptr : memory;
}

// Of /proc/self/ns/pid; 0 when it cannot be read.
std::uint64_t read_pid_namespace() noexcept {
    struct stat pid_namespace{};
    return ::stat("/proc/self/ns/pid", &pid_namespace) == 0 ? pid_namespace.st_ino : 0;
}

bool map_table(Protocol protocol, std::uint64_t pid_namespace) noexcept {
    const auto index = static_cast<unsigned>(protocol);
    void* memory = map_file(guest.page->options.table_paths[index].data(), sizeof(TableLayout));
    if (memory == nullptr) {
        return false;
    }
    auto& layout = *static_cast<TableLayout*>(memory);
    const TableConstants& constants = layout.header.constants;
    const bool is_usable =
        constants.magic == TableHeader::kMagic && constants.version == TableHeader::kVersion &&
        constants.size == sizeof(TableLayout) && constants.checksum == checksum_of(constants) &&
        constants.protocol == index &&
        layout.header.is_ready.load(std::memory_order_acquire) != 0 &&
        constants.pidns_inode == pid_namespace && pid_namespace != 0;
    if (!is_usable) {
        return false;
    }
    guest.netns_cookie = constants.netns_cookie;
    guest.tables[index].emplace(layout);
    return true;
}

// The page of what a child must not inherit, and behind it a word for each descriptor.
bool map_process_memory() noexcept {
    rlimit limit{};
    const bool has_limit = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
    const auto count = static_cast<unsigned>(
        std::min<rlim_t>(has_limit ? limit.rlim_max : kDescriptorLimit, kDescriptorLimit));
    const auto page_size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t size = page_size + count * sizeof(std::uint64_t);
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || ::madvise(memory, size, MADV_WIPEONFORK) != 0) {
        return false;
    }
    guest.process = new (memory) ProcessPage{};
    fork_page_address.store(&guest.process->fork, std::memory_order_release);
    auto* words =
        reinterpret_cast<std::atomic<std::uint64_t>*>(static_cast<char*>(memory) + page_size);
    std::construct_at(&guest.held, words, count);
    return true;
}

bool map_run(const char* path) noexcept {
    void* memory = map_file(path, sizeof(RunPage));
    if (memory == nullptr) {
        return false;
    }
    guest.page = static_cast<RunPage*>(memory);
    const bool is_usable = guest.page->magic == RunPage::kMagic &&
                           guest.page->version == RunPage::kVersion &&
                           guest.page->size == sizeof(RunPage);
    const std::uint64_t pid_namespace = is_usable ? read_pid_namespace() : 0;
    return is_usable && map_table(Protocol::udp, pid_namespace) &&
           map_table(Protocol::tcp, pid_namespace) && map_process_memory();
}

// This process had the port before it called exec(): its owner word still stands in the table.
void take_back(int fd) noexcept {
    const auto facts = facts_of(fd);
    const auto local = facts ? local_address_of(fd) : std::nullopt;
    if (!local || local->port() == 0) {
        return;
    }
    TableCore& table = guest.table(facts->protocol);
    const Footprint footprint = footprint_of(table, fd, *facts, *local);
    const OwnerWord owner = table.space(footprint.takes[0]).owner(local->port());
    if (kind_of(owner) == OwnerKind::process && without_claim(owner) == own_word() &&
        (owner & kBoundFlag) != 0) {
        hold_bound(fd, facts->protocol, footprint, local->port(), owner);
    }
}

// Most programs begin without a socket. Looking at a few numbers tells so in a tenth of the time
// that a list of /proc takes.
bool may_have_inherited() noexcept {
    constexpr int kProbeLimit = 32;
    int fd = 3;
    while (fd < kProbeLimit && !protocol_of(fd)) ++fd;
    return fd < kProbeLimit;
}

int number_in(const char* name) noexcept {
    int number = *name == '\0' ? -1 : 0;
    for (; *name >= '0' && *name <= '9' && number >= 0; ++name) {
        number = number < 100'000'000 ? number * 10 + (*name - '0') : -1;
    }
    return *name == '\0' ? number : -1;
}

// opendir() allocates.
void take_back_inherited() noexcept {
    const int directory = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        return;
    }
    alignas(dirent64) char buffer[2'048];
    unsigned seen = 0;
    for (long size = 1; size > 0 && seen < kInheritedLimit;) {
        size = ::syscall(SYS_getdents64, directory, buffer, sizeof buffer);
        for (long offset = 0; offset < size;) {
            const auto* entry = reinterpret_cast<const dirent64*>(buffer + offset);
            const int fd = number_in(entry->d_name);
            if (fd > 2 && fd != directory) take_back(fd);
            offset += entry->d_reclen;
            ++seen;
        }
    }
    next_calls.close(directory);
}

__attribute__((constructor)) void start() noexcept {
    find_next_calls();
    const char* path = ::getenv(kRunVariable);
    if (path == nullptr) {
        return;
    }
    const int saved_errno = errno;
    if (map_run(path)) {
        guest.is_ready.store(true, std::memory_order_release);
        if (may_have_inherited()) take_back_inherited();
    }
    errno = saved_errno;
}

}  // namespace
}  // namespace berth::internal
