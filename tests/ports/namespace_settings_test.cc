// SPDX-License-Identifier: Apache-2.0
#include "src/ports/namespace_settings.h"

#include "tests/support/network_namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <string>
#include <utility>

namespace berth::internal {
namespace {

using test::in_network_namespace;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(PortRangeText, IsReadAsTheKernelWritesIt) {
    EXPECT_EQ(parse_port_range("32768\t60999\n").value(), (PortRange{32768, 60999}));
    EXPECT_EQ(parse_port_range("1 65535").value(), (PortRange{1, 65535}));
    EXPECT_EQ(parse_port_range(" 5000  5000 ").value(), (PortRange{5000, 5000}));
}

TEST(PortRangeText, IsRefusedUnlessItIsTwoAscendingPorts) {
    for (const char* text : {"", " ", "\n", "1", "1 ", "0 10", "10 9", "1 65536", "65536 65537",
                             "1 99999999999999999999", "-1 5", "+1 5", "1 2 3", "1-2", "a b",
                             "0x10 0x20", "1 2x", "1.5 2"}) {
        const auto range = parse_port_range(text);
        ASSERT_FALSE(range) << "'" << text << "'";
        EXPECT_EQ(range.error().code(), Errc::invalid_argument) << "'" << text << "'";
    }
}

TEST(PortRangeText, MessageNamesTheText) {
    const auto range = parse_port_range("60999\t32768\n");
    ASSERT_FALSE(range);
    EXPECT_THAT(range.error().message(), HasSubstr("60999\t32768: invalid argument"));
    EXPECT_THAT(range.error().message(), HasSubstr("greater than the last"));
}

TEST(ReservedPortsText, IsReadAsTheKernelWritesIt) {
    EXPECT_THAT(parse_reserved_ports("").value(), IsEmpty());
    EXPECT_THAT(parse_reserved_ports("\n").value(), IsEmpty());
    EXPECT_THAT(parse_reserved_ports("8080,9000-9010\n").value(),
                ElementsAre(PortRange{8080, 8080}, PortRange{9000, 9010}));
}

TEST(ReservedPortsText, ComesOutAscending) {
    EXPECT_THAT(parse_reserved_ports("9000-9010,80").value(),
                ElementsAre(PortRange{80, 80}, PortRange{9000, 9010}));
}

TEST(ReservedPortsText, MayBeginAtZeroBecauseTheKernelLetsIt) {
    EXPECT_THAT(parse_reserved_ports("0-1023").value(), ElementsAre(PortRange{1, 1023}));
    EXPECT_THAT(parse_reserved_ports("0").value(), IsEmpty());
}

TEST(ReservedPortsText, IsRefusedUnlessItIsAListOfAscendingRanges) {
    for (const char* text : {",", "1,", ",1", "1,,2", "2-1", "65536", "1-65536", "-", "1-", "-1",
                             "1-2-3", "a", "80;81", "80 81", "80, 81"}) {
        const auto ranges = parse_reserved_ports(text);
        ASSERT_FALSE(ranges) << "'" << text << "'";
        EXPECT_EQ(ranges.error().code(), Errc::invalid_argument) << "'" << text << "'";
    }
}

TEST(NamespaceSettings, AreThoseOfTheRunningNamespace) {
    in_network_namespace({.range = {20000, 20999}, .reserved = "20005,20100-20110"}, [] {
        const auto settings = read_namespace_settings();
        ASSERT_TRUE(settings) << settings.error().message();
        EXPECT_EQ(settings->range, (PortRange{20000, 20999}));
        EXPECT_THAT(settings->reserved,
                    ElementsAre(PortRange{20005, 20005}, PortRange{20100, 20110}));
        EXPECT_EQ(settings->unprivileged_start, 1024);
    });
}

TEST(NamespaceSettings, CanBeReadWithoutPrivileges) {
    in_network_namespace({.range = {500, 600}, .drop_privileges = true}, [] {
        const auto settings = read_namespace_settings();
        ASSERT_TRUE(settings) << settings.error().message();
        EXPECT_EQ(settings->range, (PortRange{500, 600}));
        EXPECT_THAT(settings->reserved, IsEmpty());
        EXPECT_EQ(settings->unprivileged_start, 500);
    });
}

// 192 KiB of text, which the kernel cuts to the size of the first read().
TEST(NamespaceSettings, LongestListOfReservedPortsIsReadWhole) {
    std::string every_second = "1";
    for (int port = 3; port <= 65535; port += 2) {
        every_second += ',';
        every_second += std::to_string(port);
    }
    in_network_namespace({.reserved = every_second}, [] {
        const auto settings = read_namespace_settings();
        ASSERT_TRUE(settings) << settings.error().message();
        ASSERT_EQ(settings->reserved.size(), 32768U);
        EXPECT_EQ(settings->reserved.front(), (PortRange{1, 1}));
        EXPECT_EQ(settings->reserved.back(), (PortRange{65535, 65535}));
    });
}

TEST(NamespaceSettings, TimeWaitLastsAsLongAsTheKernelLetsIt) {
    const auto rests = [](const char* reuse, const char* timestamps, const char* delay) {
        const TimeWaitRests read = time_wait_rests(reuse, timestamps, delay);
        return std::pair(read.local_ms, read.remote_ms);
    };
    EXPECT_EQ(rests("2\n", "1\n", "1000\n"), std::pair(1'100U, 60'000U));
    EXPECT_EQ(rests("1\n", "1\n", ""), std::pair(2'000U, 2'000U));
    EXPECT_EQ(rests("0\n", "1\n", "1000\n"), std::pair(60'000U, 60'000U));
    EXPECT_EQ(rests("2\n", "0\n", "1000\n"), std::pair(60'000U, 60'000U));
    EXPECT_EQ(rests("1\n", "1\n", "4000000000\n"), std::pair(60'000U, 60'000U));
    EXPECT_EQ(rests("", "", ""), std::pair(60'000U, 60'000U));
}

TEST(NamespaceSettings, WithoutProcTheErrorNamesTheFileAndTheRemedy) {
    in_network_namespace([] {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
            GTEST_SKIP() << "this host allows no mount namespace";
        }
        const auto settings = read_namespace_settings();
        ASSERT_FALSE(settings);
        EXPECT_EQ(settings.error().code(), Errc::system);
        EXPECT_THAT(settings.error().message(),
                    HasSubstr("read /proc/sys/net/ipv4/ip_local_port_range: No such file"));
        EXPECT_THAT(settings.error().message(), HasSubstr("mount /proc"));
    });
}

}  // namespace
}  // namespace berth::internal
