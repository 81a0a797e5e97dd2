// SPDX-License-Identifier: Apache-2.0
#include "src/ports/table_memory.h"

#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using test::failed_with;
using test::in_network_namespace;
using test::succeeded;
using testing::HasSubstr;

constexpr PortRange kSmall = {40000, 40015};
const TableOptions kOptions = {.rest_period = std::chrono::milliseconds(0)};

class Directory {
public:
    Directory() {
        std::array<char, 64> name{"/dev/shm/berth-test-XXXXXX"};
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        path_ = name.data();
    }
    ~Directory() {
        for (const char* name : {"table", "link"}) ::unlink(file(name).c_str());
        ::rmdir(path_.c_str());
    }
    std::string file(const char* name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

// Runs `body` with the path of a file that does not exist, in a namespace of its own.
void with_path(const std::function<void(const std::string& path)>& body) {
    in_network_namespace({.range = kSmall}, [&] {
        const Directory directory;
        body(directory.file("table"));
    });
}

void make_table(const std::string& path, Protocol protocol = Protocol::udp) {
    ASSERT_TRUE(succeeded(PortTable::open(path, protocol, kOptions)));
}

void overwrite(const std::string& path, std::size_t offset, const void* data, std::size_t size) {
    const Descriptor file(::open(path.c_str(), O_WRONLY));
    ASSERT_EQ(::pwrite(file.get(), data, size, static_cast<off_t>(offset)),
              static_cast<ssize_t>(size));
}

template <class T>
void overwrite(const std::string& path, std::size_t offset, T value) {
    overwrite(path, offset, &value, sizeof value);
}

TEST(TableFile, IsMadeForItsUserOnlyAndFoundAgain) {
    with_path([](const std::string& path) {
        ::umask(0);
        auto first = PortTable::open(path, Protocol::udp, kOptions);
        ASSERT_TRUE(succeeded(first));
        struct stat status{};
        ASSERT_EQ(::stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777, 0600U);
        auto second = PortTable::open(path, Protocol::udp);
        ASSERT_TRUE(succeeded(second));
        const auto port = first->take();
        ASSERT_TRUE(succeeded(port));
        EXPECT_EQ(second->statistics().free_count, 15U);
        EXPECT_EQ(second->range(), kSmall);
    });
}

TEST(TableFile, TwoProcessesNeverGetTheSamePort) {
    with_path([](const std::string& path) {
        auto table = PortTable::open(path, Protocol::udp, kOptions);
        ASSERT_TRUE(succeeded(table));
        std::vector<Port> ours;
        for (unsigned i = 0; i < 8; ++i) {
            auto port = table->take();
            ASSERT_TRUE(succeeded(port));
            ours.push_back(std::move(*port));
        }
        const pid_t child = ::fork();
        if (child == 0) {
            auto theirs = PortTable::open(path, Protocol::udp);
            bool is_right = theirs.has_value();
            std::vector<Port> held;
            while (is_right) {
                auto port = theirs->take();
                if (!port) break;
                for (const Port& other : ours) is_right &= other.number() != port->number();
                held.push_back(std::move(*port));
            }
            ::_exit(is_right && held.size() == 8 ? 0 : 1);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
        table->sweep();
        EXPECT_EQ(table->statistics().free_count, 8U);
    });
}

TEST(TableFile, OptionsOfTheMakerCount) {
    with_path([](const std::string& path) {
        const auto first = PortTable::open(path, Protocol::udp, {.range = PortRange{50000, 50001}});
        const auto second = PortTable::open(path, Protocol::udp, {.range = PortRange{1, 2}});
        ASSERT_TRUE(first && second);
        EXPECT_EQ(second->range(), (PortRange{50000, 50001}));
    });
}

TEST(TableFile, ModeThatLetsOthersInIsRefused) {
    with_path([](const std::string& path) {
        make_table(path);
        for (const mode_t mode : {0644U, 0660U, 0602U, 0700U}) {
            ::chmod(path.c_str(), mode);
            const auto table = PortTable::open(path, Protocol::udp);
            ASSERT_TRUE(failed_with(table, Errc::permission_denied)) << std::oct << mode;
            EXPECT_THAT(table.error().message(), HasSubstr(path.substr(0, 40)));
            EXPECT_THAT(table.error().message(), HasSubstr("chmod 600"));
        }
        ::chmod(path.c_str(), 0600);
        EXPECT_TRUE(succeeded(PortTable::open(path, Protocol::udp)));
    });
}

TEST(TableFile, FileOfAnotherUserIsRefused) {
    with_path([](const std::string& path) {
        make_table(path);
        if (::chown(path.c_str(), 65534, 65534) != 0) {
            GTEST_SKIP() << "needs root";
        }
        const auto table = PortTable::open(path, Protocol::udp);
        ASSERT_TRUE(failed_with(table, Errc::permission_denied));
        EXPECT_THAT(table.error().message(), HasSubstr("another user"));
    });
}

TEST(TableFile, OtherProtocolIsRefused) {
    with_path([](const std::string& path) {
        make_table(path, Protocol::tcp);
        EXPECT_TRUE(failed_with(PortTable::open(path, Protocol::udp), Errc::table_mismatch));
    });
}

TEST(TableFile, OtherVersionIsRefused) {
    with_path([](const std::string& path) {
        make_table(path);
        overwrite(path, offsetof(TableConstants, version), TableHeader::kVersion + 1);
        const auto table = PortTable::open(path, Protocol::udp);
        ASSERT_TRUE(failed_with(table, Errc::table_mismatch));
        EXPECT_THAT(table.error().message(), HasSubstr("version"));
    });
}

TEST(TableFile, DamageInTheHeaderIsRefused) {
    const std::size_t places[] = {offsetof(TableConstants, magic),
                                  offsetof(TableConstants, rest_period_ms),
                                  offsetof(TableConstants, boot_id),
                                  offsetof(TableConstants, netns_cookie),
                                  offsetof(TableConstants, honours_reserved),
                                  offsetof(TableConstants, checksum)};
    for (const std::size_t place : places) {
        with_path([place](const std::string& path) {
            make_table(path);
            overwrite(path, place, std::uint8_t{0xa5});
            EXPECT_TRUE(failed_with(PortTable::open(path, Protocol::udp), Errc::table_damaged))
                << place;
        });
    }
}

TEST(TableFile, DamagedRangeIsRefused) {
    with_path([](const std::string& path) {
        for (const std::uint32_t range : {0U, 40000U, 50000U << 16 | 40000U}) {
            make_table(path);
            overwrite(path, offsetof(TableHeader, range), range);
            EXPECT_TRUE(failed_with(PortTable::open(path, Protocol::udp), Errc::table_damaged));
            ::unlink(path.c_str());
        }
    });
}

TEST(TableFile, WrongSizeIsRefusedAndLeftAlone) {
    with_path([](const std::string& path) {
        make_table(path);
        for (const off_t size : {off_t{1}, off_t{4096}, off_t{sizeof(TableLayout)} - 1,
                                 off_t{sizeof(TableLayout)} + 1}) {
            ASSERT_EQ(::truncate(path.c_str(), size), 0);
            EXPECT_TRUE(failed_with(PortTable::open(path, Protocol::udp), Errc::table_damaged));
            struct stat status{};
            ::stat(path.c_str(), &status);
            EXPECT_EQ(status.st_size, size);
        }
    });
}

TEST(TableFile, OtherFileOfTheRightSizeIsRefusedAndLeftAlone) {
    with_path([](const std::string& path) {
        const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
        ASSERT_EQ(::ftruncate(file.get(), sizeof(TableLayout)), 0);
        overwrite(path, 0, "somebody's data", 15);
        EXPECT_TRUE(failed_with(PortTable::open(path, Protocol::udp), Errc::table_damaged));
        std::array<char, 15> data{};
        ASSERT_EQ(::pread(file.get(), data.data(), data.size(), 0), 15);
        EXPECT_EQ(std::string(data.data(), data.size()), "somebody's data");
    });
}

TEST(TableFile, WhatIsNoRegularFileIsRefused) {
    in_network_namespace({.range = kSmall}, [] {
        const Directory directory;
        EXPECT_FALSE(PortTable::open(directory.path(), Protocol::udp));
        EXPECT_FALSE(PortTable::open(directory.file("missing/table"), Protocol::udp));
        EXPECT_FALSE(PortTable::open("/dev/null", Protocol::udp));
        EXPECT_FALSE(PortTable::open("", Protocol::udp));
        const std::string path = directory.file("table");
        make_table(path);
        ASSERT_EQ(::symlink(path.c_str(), directory.file("link").c_str()), 0);
        EXPECT_FALSE(PortTable::open(directory.file("link"), Protocol::udp)) << "a link";
        ::unlink(path.c_str());
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
        EXPECT_TRUE(failed_with(PortTable::open(path, Protocol::udp), Errc::invalid_argument));
    });
}

TEST(TableFile, TableOfAnotherNetworkNamespaceIsRefused) {
    with_path([](const std::string& path) {
        make_table(path);
        if (::unshare(CLONE_NEWNET) != 0) {
            GTEST_SKIP() << "no second network namespace";
        }
        const auto table = PortTable::open(path, Protocol::udp);
        ASSERT_TRUE(failed_with(table, Errc::table_mismatch));
        EXPECT_THAT(table.error().message(), HasSubstr("network namespace"));
    });
}

TEST(TableFile, HalfMadeFileOfAKilledMakerIsMadeAnew) {
    with_path([](const std::string& path) {
        for (const bool has_header : {false, true}) {
            make_table(path);
            overwrite(path, offsetof(TableHeader, is_ready), std::uint32_t{0});
            overwrite(path, offsetof(TableHeader, range), std::uint32_t{0});
            if (!has_header) overwrite(path, 0, std::uint64_t{0});
            auto table = PortTable::open(path, Protocol::udp, kOptions);
            ASSERT_TRUE(succeeded(table));
            EXPECT_EQ(table->statistics().free_count, kSmall.size());
            ::unlink(path.c_str());
        }
    });
}

TEST(TableFile, ManyWhoOpenItAtOnceGetOneTable) {
    with_path([](const std::string& path) {
        std::vector<pid_t> children;
        for (unsigned i = 0; i < 8; ++i) {
            children.push_back(::fork());
            if (children.back() == 0) {
                auto table = PortTable::open(path, Protocol::udp, kOptions);
                const bool has_port = table && table->take()->detach() != 0;
                ::_exit(has_port ? 0 : 1);
            }
        }
        for (const pid_t child : children) {
            int status = -1;
            ::waitpid(child, &status, 0);
            EXPECT_EQ(status, 0);
        }
        auto table = PortTable::open(path, Protocol::udp, {.reconcile_at_start = false});
        ASSERT_TRUE(succeeded(table));
        // Each process that opens it takes back what the ones before it left.
        EXPECT_GE(table->statistics().reclaimed_count + table->sweep(), 8U);
        EXPECT_EQ(table->statistics().free_count, kSmall.size());
    });
}

TEST(TableMemfd, IsAttachedBySomebodyElse) {
    in_network_namespace({.range = kSmall}, [] {
        auto table = PortTable::create_shared(Protocol::tcp, kOptions);
        ASSERT_TRUE(succeeded(table));
        EXPECT_GE(table->descriptor(), 0);
        EXPECT_NE(::fcntl(table->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
        auto other = PortTable::attach(Descriptor(::dup(table->descriptor())), Protocol::tcp);
        ASSERT_TRUE(succeeded(other));
        const auto port = table->take();
        ASSERT_TRUE(succeeded(port));
        EXPECT_EQ(other->statistics().free_count, 15U);
        EXPECT_TRUE(
            failed_with(PortTable::attach(Descriptor(::dup(table->descriptor())), Protocol::udp),
                        Errc::table_mismatch));
    });
}

TEST(TableMemfd, CannotBePulledAway) {
    in_network_namespace({.range = kSmall}, [] {
        auto table = PortTable::create_shared(Protocol::udp, kOptions);
        ASSERT_TRUE(succeeded(table));
        EXPECT_NE(::ftruncate(table->descriptor(), 0), 0);
        EXPECT_NE(::ftruncate(table->descriptor(), 1 << 30), 0);
    });
}

TEST(TableMemfd, WhatIsNoTableIsRefused) {
    in_network_namespace({.range = kSmall}, [] {
        EXPECT_TRUE(
            failed_with(PortTable::attach(Descriptor(-1), Protocol::udp), Errc::invalid_argument));
        EXPECT_TRUE(failed_with(
            PortTable::attach(Descriptor(::memfd_create("x", MFD_CLOEXEC)), Protocol::udp),
            Errc::table_damaged));
        Descriptor zeroes(::memfd_create("x", MFD_CLOEXEC));
        ASSERT_EQ(::ftruncate(zeroes.get(), sizeof(TableLayout)), 0);
        EXPECT_TRUE(
            failed_with(PortTable::attach(std::move(zeroes), Protocol::udp), Errc::table_damaged));
        int ends[2];
        ASSERT_EQ(::pipe(ends), 0);
        const Descriptor writer(ends[1]);
        EXPECT_FALSE(PortTable::attach(Descriptor(ends[0]), Protocol::udp));
    });
}

}  // namespace
}  // namespace berth::internal
