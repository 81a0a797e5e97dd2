// SPDX-License-Identifier: Apache-2.0
// Compares the tables of the `berth run` that this program runs in with the kernel's list of
// sockets, port by port, without correcting anything. Prints each difference; 1 when there is one.
//
//   the kernel shows a bound socket in the range     → its port must be taken in a bind space
//   a port that a process has in a bind space        → the kernel must show a socket with it
//
// Ports that rest count as free. A port known as the kernel's may be gone: the next reconcile finds
// that.
#include "src/interpose/run_page.h"
#include "src/ports/kernel_view.h"
#include "src/ports/table_core.h"
#include "src/ports/taken_ports.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using namespace berth;
using namespace berth::internal;

template <class T>
T& map(const char* path) {
    const Descriptor file(::open(path, O_RDWR | O_CLOEXEC));
    void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) {
        std::perror(path);
        std::exit(2);
    }
    return *static_cast<T*>(memory);
}

bool is_of_connections(unsigned space) { return space / 2 == kConnectedSpace / 2; }

bool is_taken(const TableCore& table, std::uint16_t port) {
    bool found = false;
    for_each_used_space(table, [&](unsigned index) {
        found = found || !is_nobodys(table.space(index).owner(port));
    });
    return found;
}

unsigned compare(const TableCore& table, Protocol protocol) {
    const auto listed = read_kernel_sockets(protocol);
    if (!listed) {
        std::printf("%s\n", listed.error().message().c_str());
        return 1;
    }
    unsigned differences = 0;
    std::vector<bool> is_shown(kPortCount);
    for (const KernelSocket& socket : listed->sockets) {
        const std::uint16_t port = socket.local.port();
        is_shown[port] = true;
        constexpr std::uint8_t kTimeWait = 6;
        if (table.range().contains(port) && socket.tcp_state != kTimeWait &&
            !is_taken(table, port)) {
            std::printf("%s %u: the kernel has it, the table does not\n",
                        std::string(to_string(protocol)).c_str(), port);
            ++differences;
        }
    }
    for_each_used_space(table, [&](unsigned index) {
        for_each_taken_port(table, index, [&](std::uint16_t port, OwnerWord owner) {
            const bool is_ours =
                kind_of(owner) == OwnerKind::process || kind_of(owner) == OwnerKind::connected;
            if (is_ours && !is_shown[port]) {
                std::printf("%s %u: space %u has it, the kernel does not\n",
                            std::string(to_string(protocol)).c_str(), port, index);
                ++differences;
            } else if (owner == kNobody && !is_of_connections(index)) {
                std::printf("%s %u: space %u has lost it\n",
                            std::string(to_string(protocol)).c_str(), port, index);
                ++differences;
            }
        });
    });
    return differences;
}

}  // namespace

int main() {
    const char* path = std::getenv(kRunVariable);
    if (path == nullptr) {
        std::printf("not in a run\n");
        return 2;
    }
    RunPage& page = map<RunPage>(path);
    unsigned differences = 0;
    for (const Protocol protocol : {Protocol::udp, Protocol::tcp}) {
        auto& layout =
            map<TableLayout>(page.options.table_paths[static_cast<std::size_t>(protocol)].data());
        differences += compare(TableCore(layout), protocol);
    }
    return differences == 0 ? 0 : 1;
}
