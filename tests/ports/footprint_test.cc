// SPDX-License-Identifier: Apache-2.0
#include "src/ports/footprint.h"

#include "tests/support/core_table.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace berth::internal {
namespace {

using test::address;
using test::CoreTable;

constexpr PortRange kSmall = {40000, 40015};
constexpr unsigned kV4 = static_cast<unsigned>(Family::ipv4);
constexpr unsigned kV6 = static_cast<unsigned>(Family::ipv6);

TEST(Footprint, WildcardsTakeTheirFamiliesSpaces) {
    CoreTable table(kSmall);
    const Footprint v4 = table.bind(address("0.0.0.0"));
    EXPECT_EQ(v4.take_count, 1U);
    EXPECT_EQ(v4.takes[0], kWildcardSpace + kV4);
    const Footprint v6 = table.bind(address("::"), false);
    EXPECT_EQ(v6.take_count, 1U);
    EXPECT_EQ(v6.takes[0], kWildcardSpace + kV6);
    const Footprint both = table.bind(address("::"), true);
    EXPECT_EQ(both.take_count, 2U);
    EXPECT_EQ(all_spaces(both), all_spaces(v4) | all_spaces(v6));
}

TEST(Footprint, SpecificAddressHasASpaceOfItsOwnForever) {
    CoreTable table(kSmall);
    TableHeader& header = table->header();
    EXPECT_FALSE(find_space_of_address(header, address("127.0.0.1")));
    const unsigned first = space_of_address(header, address("127.0.0.1"));
    EXPECT_GE(first, kFirstAddressSpace);
    EXPECT_EQ(space_of_address(header, address("127.0.0.1")), first);
    EXPECT_EQ(space_of_address(header, address("127.0.0.1:99")), first);
    EXPECT_EQ(find_space_of_address(header, address("127.0.0.1")), first);
    EXPECT_NE(space_of_address(header, address("127.0.0.2")), first);
    EXPECT_NE(space_of_address(header, address("::1")), first);
}

TEST(Footprint, ScopesTellLinkLocalAddressesApart) {
    CoreTable table(kSmall);
    TableHeader& header = table->header();
    EXPECT_NE(space_of_address(header, address("fe80::1%1")),
              space_of_address(header, address("fe80::1%2")));
}

TEST(Footprint, AddressesBeyondTheLimitShareTheFamilysSpace) {
    CoreTable table(kSmall);
    TableHeader& header = table->header();
    std::set<unsigned> spaces;
    for (unsigned i = 1; i <= kAddressSpaceCount; ++i) {
        spaces.insert(space_of_address(header, address(("127.0.0." + std::to_string(i)).c_str())));
    }
    EXPECT_EQ(spaces.size(), kAddressSpaceCount);
    EXPECT_EQ(space_of_address(header, address("127.0.1.1")), kOthersSpace + kV4);
    EXPECT_EQ(space_of_address(header, address("127.0.1.2")), kOthersSpace + kV4);
    EXPECT_EQ(space_of_address(header, address("::1")), kOthersSpace + kV6);
    EXPECT_FALSE(find_space_of_address(header, address("127.0.1.1")));
}

TEST(Footprint, WildcardLooksIntoTheAddressesOfItsFamilyOnly) {
    CoreTable table(kSmall);
    const unsigned v4 = space_of_address(table->header(), address("127.0.0.1"));
    const unsigned v6 = space_of_address(table->header(), address("::1"));
    EXPECT_NE(table.wildcard(true, false).checks & space_bit(v4), 0U);
    EXPECT_EQ(table.wildcard(true, false).checks & space_bit(v6), 0U);
    EXPECT_NE(table.wildcard(false, true).checks & space_bit(v6), 0U);
    EXPECT_EQ(table.bind(address("127.0.0.2")).checks & space_bit(v4), 0U);
}

// Its writer was killed after he had reserved the place.
TEST(Footprint, PlaceOfADeadWriterIsUsedAgain) {
    CoreTable table(kSmall);
    TableHeader& header = table->header();
    const OwnerWord dead = with_kind(OwnerKind::process, ProcessIdentity{1, 0xffff'ffff}.packed());
    for (AddressEntry& entry : header.addresses) entry.state = dead;
    EXPECT_EQ(space_of_address(header, address("127.0.0.1")), kFirstAddressSpace);
    for (AddressEntry& entry : header.addresses) entry.state = own_word();
    EXPECT_EQ(space_of_address(header, address("127.0.0.2")), kOthersSpace + kV4);
}

TEST(Footprint, ConnectionLooksAtWhateverIsBound) {
    const Footprint connection = footprint_of_connection(Family::ipv4);
    EXPECT_EQ(connection.takes[0], kConnectedSpace + kV4);
    for (const unsigned space : {kWildcardSpace, kWildcardSpace + 1, kOthersSpace,
                                 kFirstAddressSpace, kFirstAddressSpace + kAddressSpaceCount - 1}) {
        EXPECT_NE(connection.checks & space_bit(space), 0U) << space;
    }
    EXPECT_EQ(connection.checks & space_bit(kConnectedSpace + kV4), 0U);
    EXPECT_EQ(connection.checks & space_bit(kConnectedSpace + kV6), 0U);
}

}  // namespace
}  // namespace berth::internal
