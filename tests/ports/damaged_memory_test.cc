// SPDX-License-Identifier: Apache-2.0
// A table's memory that somebody has scribbled in, or that is not all there: an error or an odd
// answer, but no crash.
#include "src/ports/table_memory.h"
#include "src/ports/table_state.h"

#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using std::chrono::milliseconds;
using test::address;
using test::failed_with;
using test::in_network_namespace;
using test::new_socket;
using test::succeeded;
using testing::HasSubstr;

constexpr PortRange kSmall = {40000, 40015};

std::unique_ptr<TableState> new_state(Protocol protocol, PortRange explicit_range) {
    auto memory = TableMemory::create_private({protocol, 0, explicit_range, true});
    EXPECT_TRUE(succeeded(memory));
    auto state = TableState::make(std::move(*memory), {.recheck_interval = milliseconds(0)});
    EXPECT_TRUE(succeeded(state));
    return std::move(*state);
}

// Every operation of a table twice; which of them succeed does not matter here.
void use_everything(TableState& table) {
    const Protocol protocol = table.protocol();
    std::vector<Socket> sockets;
    std::vector<Result<Port>> ports;
    for (unsigned i = 0; i < 2; ++i) {
        ports.push_back(table.take(TakeFamily::both));
        for (const char* local : {"0.0.0.0", "127.0.0.1", "::", "127.0.0.1:40003", "0.0.0.0:1"}) {
            sockets.push_back(new_socket(protocol, address(local).family()));
            ports.push_back(table.bind(SocketTraits::of(sockets.back()), address(local), {}));
        }
        for (const char* remote : {"127.0.0.1:20000", "[::1]:20000"}) {
            sockets.push_back(new_socket(protocol, address(remote).family()));
            ports.push_back(table.connect(SocketTraits::of(sockets.back()), address(remote)));
        }
        if (const auto lease = table.lease({.count = 2})) {
            ports.push_back(table.claim(lease->ports[0], lease->token));
        }
        static_cast<void>(table.lease({.count = 2, .shape = LeaseShape::even_odd_pairs}));
        table.sweep();
        table.statistics();
    }
    sockets.clear();
    ports.clear();
    table.sweep();
}

// Damages tables of both protocols, with and without a range of their own, and uses them.
void survive(const std::function<void(TableHeader&)>& damage) {
    in_network_namespace({.range = kSmall}, [&] {
        const Descriptor server = test::listener(address("127.0.0.1:20000"));
        for (const Protocol protocol : test::kProtocols) {
            for (const PortRange explicit_range : {PortRange{0, 0}, PortRange{40000, 40007}}) {
                const auto table = new_state(protocol, explicit_range);
                use_everything(*table);
                damage(table->core().header());
                use_everything(*table);
                damage(table->core().header());
                EXPECT_TRUE(succeeded(table->reconcile()));
                use_everything(*table);
            }
        }
    });
}

class DamagedRange : public testing::TestWithParam<std::uint32_t> {};

TEST_P(DamagedRange, CrashesNobodyAndIsPutRightByReconcile) {
    survive([](TableHeader& header) { header.range = GetParam(); });
    survive([](TableHeader& header) {
        header.range = GetParam();
        header.known_range = GetParam();
    });
    in_network_namespace({.range = kSmall}, [] {
        const auto table = new_state(Protocol::udp, {0, 0});
        table->core().header().range = GetParam();
        EXPECT_TRUE(table->core().range().is_valid());
        ASSERT_TRUE(succeeded(table->reconcile()));
        EXPECT_EQ(table->core().range(), kSmall);
    });
}

INSTANTIATE_TEST_SUITE_P(Words, DamagedRange,
                         testing::Values(pack({65535, 0}), pack({0, 65535}), pack({40010, 40000}),
                                         pack({0, 0}), pack({65535, 65535})));

TEST(DamagedSpaces, BitsOfSpacesThatDoNotExistCrashNobody) {
    survive([](TableHeader& header) {
        header.used_spaces = ~0U;
        for (auto& spaces : header.address_spaces) spaces = ~0U;
    });
    survive([](TableHeader& header) { header.used_spaces = ~kAllSpaces; });
    survive([](TableHeader& header) {
        for (auto& spaces : header.address_spaces) spaces = ~kAllSpaces;
    });
}

// A file system of its own, mounted for this process alone, with room for a part of a table.
class TinyFileSystem {
public:
    TinyFileSystem() {
        std::array<char, 64> name{"/tmp/berth-test-XXXXXX"};
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        path_ = name.data();
        is_mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
                      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") == 0;
        reason_ = is_mounted_ ? 0 : errno;
    }
    ~TinyFileSystem() {
        if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
        ::rmdir(path_.c_str());
    }
    bool is_mounted() const { return is_mounted_; }
    int reason() const { return reason_; }
    std::string file() const { return path_ + "/table"; }
    void grow() const {
        ASSERT_EQ(::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0)
            << std::strerror(errno);
    }

private:
    std::string path_;
    bool is_mounted_ = false;
    int reason_ = 0;
};

TEST(TableFileWithoutRoom, IsAnErrorThatNamesTheRoomAndNoCrash) {
    in_network_namespace({.range = kSmall}, [] {
        const TinyFileSystem small;
        if (!small.is_mounted()) {
            GTEST_SKIP() << "cannot mount a file system: " << std::strerror(small.reason());
        }
        for (unsigned i = 0; i < 2; ++i) {
            const auto table = PortTable::open(small.file(), Protocol::udp);
            ASSERT_FALSE(table);
            EXPECT_EQ(table.error().system_errno(), ENOSPC);
            EXPECT_THAT(table.error().message(), HasSubstr("10 MB of room"));
            EXPECT_THAT(table.error().message(), HasSubstr("/table"));
        }
        small.grow();
        const auto table = PortTable::open(small.file(), Protocol::udp);
        EXPECT_TRUE(succeeded(table)) << "the attempts have left nothing in its way";
    });
}

// The bytes of a table in a memfd that anybody may shrink.
Descriptor unsealed_copy_of(int table) {
    Descriptor copy(::memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    std::vector<char> bytes(sizeof(TableLayout));
    const auto size = static_cast<ssize_t>(bytes.size());
    EXPECT_EQ(::pread(table, bytes.data(), bytes.size(), 0), size);
    EXPECT_EQ(::pwrite(copy.get(), bytes.data(), bytes.size(), 0), size);
    return copy;
}

TEST(TableMemfdWithoutSeal, IsNotAttached) {
    in_network_namespace({.range = kSmall}, [] {
        const auto table = PortTable::create_shared(Protocol::udp);
        ASSERT_TRUE(succeeded(table));
        Descriptor copy = unsealed_copy_of(table->descriptor());
        Descriptor same(::dup(copy.get()));
        const auto attached = PortTable::attach(std::move(copy), Protocol::udp);
        ASSERT_TRUE(failed_with(attached, Errc::table_damaged));
        EXPECT_THAT(attached.error().message(), HasSubstr("sealed"));
        ASSERT_EQ(::fcntl(same.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
        EXPECT_TRUE(failed_with(PortTable::attach(Descriptor(::dup(same.get())), Protocol::udp),
                                Errc::table_damaged));
        ASSERT_EQ(::fcntl(same.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
        EXPECT_TRUE(succeeded(PortTable::attach(std::move(same), Protocol::udp)));
    });
}

TEST(TableMemfdWithoutSeal, FileIsNotAttachedEither) {
    in_network_namespace({.range = kSmall}, [] {
        std::array<char, 64> name{"/dev/shm/berth-test-XXXXXX"};
        const Descriptor made(::mkstemp(name.data()));
        ASSERT_TRUE(made.is_open());
        const auto table = PortTable::open(name.data(), Protocol::udp);
        ::unlink(name.data());
        ASSERT_TRUE(succeeded(table));
        EXPECT_TRUE(
            failed_with(PortTable::attach(Descriptor(::dup(table->descriptor())), Protocol::udp),
                        Errc::table_damaged));
    });
}

}  // namespace
}  // namespace berth::internal
