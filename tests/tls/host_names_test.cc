// SPDX-License-Identifier: Apache-2.0
#include "src/tls/host_names.h"

#include "tests/tls/test_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace berth::internal {
namespace {

using testing::ElementsAre;

TEST(HostNames, AreToldFromAddressesAndTheRest) {
    const std::string label(63, 'x');
    for (const std::string& name :
         {std::string("a"), std::string("host.example"), std::string("xn--bcher-kva.example"),
          std::string("_sip.a-1.example"), label + ".example", std::string("1.2.3"),
          std::string("256.0.0.1")}) {
        EXPECT_EQ(kind_of_host(name), HostKind::name) << name;
    }
    for (const char* address : {"192.0.2.1", "::", "2001:db8::1", "::ffff:192.0.2.1"}) {
        EXPECT_EQ(kind_of_host(address), HostKind::address) << address;
    }
    for (const std::string& neither :
         {std::string(), std::string("."), std::string("a."), std::string(".a"),
          std::string("a..b"), std::string("a b"), std::string("*.a"), std::string("a:443"),
          std::string("[::1]"), std::string("fe80::1%eth0"), std::string("b\xc3\xbc"),
          std::string("a\0b", 3), 'x' + label, std::string(254, 'a')}) {
        EXPECT_EQ(kind_of_host(neither), HostKind::invalid) << neither;
    }
}

TEST(HostNames, MayHave253Bytes) {
    std::string name;
    while (name.size() < 252) name += "a.";
    name.resize(253, 'a');
    EXPECT_EQ(kind_of_host(name), HostKind::name);
    EXPECT_EQ(kind_of_host(name + "a"), HostKind::invalid);
}

TEST(HostNames, PatternIsANameOrAStarBeforeOne) {
    for (const char* pattern : {"a.example", "*.a.example", "*.example"}) {
        EXPECT_TRUE(is_name_pattern(pattern)) << pattern;
    }
    for (const char* other : {"", "*", "*.", "a.*.example", "x*.example", "*.*.example", "*a"}) {
        EXPECT_FALSE(is_name_pattern(other)) << other;
    }
}

TEST(HostNames, OfACertificateAreItsDnsNames) {
    const auto certificate = tls_test::self_signed(
        {.hosts = {"a.example", "192.0.2.1", "*.b.example", "no*name.example"}});
    EXPECT_THAT(dns_names_of(certificate.certificate.get()),
                ElementsAre("a.example", "*.b.example"));
    EXPECT_THAT(dns_names_of(tls_test::self_signed({}).certificate.get()), ElementsAre());
}

TEST(HostNames, DescriptionIsCutWhereTheBufferEnds) {
    const auto certificate =
        tls_test::self_signed({.hosts = {"a.example", "2001:db8::1", "c.example", "d.example"}});
    std::array<char, 100> buffer{};
    EXPECT_EQ(describe_hosts(certificate.certificate.get(), buffer),
              "a.example, 2001:db8::1, c.example and 1 more");
    EXPECT_EQ(describe_hosts(certificate.certificate.get(), std::span(buffer).first(12)),
              "a.example, 2");
    EXPECT_EQ(describe_hosts(tls_test::self_signed({}).certificate.get(), buffer), "no host");
}

TEST(ServerNames, ExactNameGoesBeforeAWildcard) {
    ServerNames names;
    EXPECT_TRUE(names.add("*.example.org", 1));
    EXPECT_TRUE(names.add("www.example.org", 2));
    EXPECT_TRUE(names.add("Other.Example", 3));
    EXPECT_EQ(names.find("www.example.org"), 2);
    EXPECT_EQ(names.find("WWW.Example.Org."), 2);
    EXPECT_EQ(names.find("ftp.example.org"), 1);
    EXPECT_EQ(names.find("other.example"), 3);
}

TEST(ServerNames, WildcardStandsForExactlyOneLabel) {
    ServerNames names;
    EXPECT_TRUE(names.add("*.example.org", 1));
    for (const char* name : {"example.org", "a.b.example.org", ".example.org", "*.example.org", "",
                             "org", "xexample.org"}) {
        EXPECT_EQ(names.find(name), std::nullopt) << name;
    }
}

TEST(ServerNames, NameBelongsToOneIdentity) {
    ServerNames names;
    EXPECT_TRUE(names.add("a.example", 1));
    EXPECT_FALSE(names.add("A.example", 2));
    EXPECT_EQ(names.find("a.example"), 1);
}

TEST(ServerNames, LongestNameIsFound) {
    ServerNames names;
    std::string name;
    while (name.size() < 252) name += "a.";
    name.resize(253, 'a');
    EXPECT_TRUE(names.add(name, 1));
    EXPECT_EQ(names.find(name), 1);
    EXPECT_EQ(names.find(name + "a"), std::nullopt);
}

}  // namespace
}  // namespace berth::internal
