// SPDX-License-Identifier: Apache-2.0
#include <berth/address.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace berth {
namespace {

using testing::HasSubstr;

Address parsed(std::string_view text) {
    const Result<Address> address = Address::parse(text);
    EXPECT_TRUE(address.has_value()) << text << ": " << address.error().message();
    return address.value_or(Address());
}

Address from_v6(const in6_addr& host, std::uint16_t port, std::uint32_t scope_id) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = host;
    v6.sin6_port = htons(port);
    v6.sin6_scope_id = scope_id;
    return *Address::from(reinterpret_cast<const sockaddr*>(&v6), sizeof(v6));
}

void expect_refused(const std::vector<std::string_view>& texts) {
    for (const std::string_view text : texts) {
        const Result<Address> address = Address::parse(text);
        ASSERT_FALSE(address.has_value()) << text;
        EXPECT_EQ(address.error().code(), Errc::invalid_argument) << text;
    }
}

TEST(Address, DefaultIsTheIpv4Wildcard) {
    const Address address;
    EXPECT_EQ(address.family(), Family::ipv4);
    EXPECT_EQ(address.port(), 0);
    EXPECT_TRUE(address.is_wildcard());
    EXPECT_EQ(address.to_string(), "0.0.0.0");
    EXPECT_EQ(address.size(), sizeof(sockaddr_in));
}

TEST(Address, WildcardAndLoopbackInBothFamilies) {
    EXPECT_EQ(Address::any(Family::ipv6, 53).to_string(), "[::]:53");
    EXPECT_EQ(Address::any(Family::ipv6).size(), sizeof(sockaddr_in6));
    EXPECT_EQ(Address::loopback(Family::ipv4, 53).to_string(), "127.0.0.1:53");
    EXPECT_EQ(Address::loopback(Family::ipv6).to_string(), "::1");
    EXPECT_TRUE(Address::loopback(Family::ipv6).is_loopback());
    EXPECT_TRUE(parsed("127.9.9.9").is_loopback());
    EXPECT_FALSE(parsed("128.0.0.1").is_loopback());
    EXPECT_FALSE(Address::loopback(Family::ipv6).is_wildcard());
}

TEST(Address, ParsesTheDocumentedForms) {
    EXPECT_EQ(parsed("192.0.2.1").to_string(), "192.0.2.1");
    EXPECT_EQ(parsed("192.0.2.1:53").to_string(), "192.0.2.1:53");
    EXPECT_EQ(parsed("192.0.2.1:0").port(), 0);
    EXPECT_EQ(parsed("2001:DB8::1").to_string(), "2001:db8::1");
    EXPECT_EQ(parsed("[2001:db8::1]").to_string(), "2001:db8::1");
    EXPECT_EQ(parsed("[2001:db8::1]:65535").to_string(), "[2001:db8::1]:65535");
    EXPECT_EQ(parsed("::ffff:192.0.2.1").unmapped().to_string(), "192.0.2.1");
}

TEST(Address, ParsesScopesByNameAndNumber) {
    const unsigned loopback_index = ::if_nametoindex("lo");
    ASSERT_NE(loopback_index, 0U);
    EXPECT_EQ(parsed("[fe80::1%lo]:53").scope_id(), loopback_index);
    EXPECT_EQ(parsed("fe80::1%lo").to_string(), "fe80::1%lo");
    EXPECT_EQ(parsed("fe80::1%4000000000").to_string(), "fe80::1%4000000000");
    EXPECT_NE(parsed("fe80::1%lo"), parsed("fe80::1"));
}

TEST(Address, RefusesWhatIsNoNumericAddress) {
    const std::vector<std::string_view> no_hosts = {"", " ", "localhost", "192.0.2", "192.0.2.256"};
    const std::vector<std::string_view> bad_ports = {
        "1.2.3.4:",   "1.2.3.4:x",  "1.2.3.4:-1", "1.2.3.4:65536", "1.2.3.4: 5",
        "1.2.3.4:+5", "1.2.3.4:5 ", ":53",        "[::1]:",        "[::1]:5:6"};
    const std::vector<std::string_view> bad_brackets = {"[::1", "::1]", "[::1]53", "[1.2.3.4]:5",
                                                        "[]"};
    const std::vector<std::string_view> bad_scopes = {"::1%", "fe80::1%nosuchif0",
                                                      "fe80::1%99999999999", "1.2.3.4%lo", ":::"};
    for (const auto& refused : {no_hosts, bad_ports, bad_brackets, bad_scopes}) {
        expect_refused(refused);
    }
}

TEST(Address, ZeroByteDoesNotEndTheTextEarly) {
    using namespace std::string_view_literals;
    EXPECT_FALSE(Address::parse("192.0.2.1\0.example"sv));
    EXPECT_FALSE(Address::parse("fe80::1%lo\0x"sv));
}

TEST(Address, RefusalNamesTheTextAndTheAcceptedForms) {
    const std::string message = Address::parse("localhost:80").error().message();
    EXPECT_THAT(message, HasSubstr("localhost:80"));
    EXPECT_THAT(message, HasSubstr("192.0.2.1:53"));
    EXPECT_THAT(Address::parse("1.2.3.4:99999").error().message(), HasSubstr("0 to 65535"));
}

TEST(Address, FromRefusesShortAndForeignAddresses) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    const auto* address = reinterpret_cast<const sockaddr*>(&v4);
    EXPECT_TRUE(Address::from(address, sizeof(v4)));
    EXPECT_FALSE(Address::from(address, sizeof(v4) - 1));
    EXPECT_FALSE(Address::from(address, 0));
    EXPECT_FALSE(Address::from(nullptr, sizeof(v4)));
    v4.sin_family = AF_UNIX;
    EXPECT_FALSE(Address::from(address, sizeof(v4)));
    v4.sin_family = AF_INET6;
    EXPECT_FALSE(Address::from(address, sizeof(v4)));
}

TEST(Address, FromTakesAnIpv6AddressWithoutScopeAsTheKernelDoes) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    v6.sin6_scope_id = 9;
    const Result<Address> address = Address::from(reinterpret_cast<const sockaddr*>(&v6), 24);
    ASSERT_TRUE(address);
    EXPECT_EQ(*address, Address::loopback(Family::ipv6));
}

TEST(Address, MappedAddressCountsAsTheIpv4AddressItIs) {
    const Address mapped = parsed("[::ffff:127.0.0.1]:7");
    EXPECT_TRUE(mapped.is_v4_mapped());
    EXPECT_TRUE(mapped.is_loopback());
    EXPECT_EQ(mapped.unmapped(), Address::loopback(Family::ipv4, 7));
    EXPECT_NE(mapped, mapped.unmapped());
    EXPECT_TRUE(parsed("::ffff:0.0.0.0").is_wildcard());
    EXPECT_FALSE(Address::any(Family::ipv6).is_v4_mapped());
}

TEST(Address, WithPortChangesOnlyThePort) {
    const Address address = parsed("[2001:db8::1%lo]:53").with_port(54);
    EXPECT_EQ(address, parsed("[2001:db8::1%lo]:54"));
    EXPECT_NE(address, parsed("[2001:db8::1%lo]:53"));
}

RC_GTEST_PROP(AddressProperty, Ipv4TextParsesToTheSameAddress,
              (const std::uint32_t host, const std::uint16_t port)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = host;
    v4.sin_port = htons(port);
    const auto address = *Address::from(reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
    RC_ASSERT(*Address::parse(address.to_string()) == address);
    RC_ASSERT(address.port() == port);
}

RC_GTEST_PROP(AddressProperty, Ipv6TextParsesToTheSameAddress,
              (const std::array<std::uint8_t, 16>& host, const std::uint16_t port,
               const std::uint32_t scope_id)) {
    in6_addr in6{};
    std::memcpy(&in6, host.data(), host.size());
    const Address address = from_v6(in6, port, scope_id);
    RC_ASSERT(*Address::parse(address.to_string()) == address);
    RC_ASSERT(address.bytes() == host);
    RC_ASSERT(address.scope_id() == scope_id);
}

RC_GTEST_PROP(AddressProperty, AnyTextIsParsedOrRefusedAndWhatIsParsedComesBack,
              (const std::vector<std::uint8_t>& choices)) {
    constexpr std::string_view kAlphabet = "0123456789abcdef:.[]%";
    std::string text;
    for (const std::uint8_t choice : choices) {
        text += kAlphabet[choice % kAlphabet.size()];
    }
    if (const Result<Address> address = Address::parse(text)) {
        RC_ASSERT(*Address::parse(address->to_string()) == *address);
    }
}

}  // namespace
}  // namespace berth
