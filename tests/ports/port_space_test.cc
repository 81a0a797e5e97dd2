// SPDX-License-Identifier: Apache-2.0
#include "src/ports/port_space.h"

#include "tests/support/core_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace berth::internal {
namespace {

using test::CoreTable;

constexpr PortRange kSmall = {40000, 40007};

class PortSpaceTest : public testing::Test {
protected:
    CoreTable table_{kSmall};
    PortSpace& space_ = table_.space(kWildcardSpace);
    const OwnerWord first_ = with_kind(OwnerKind::process, ProcessIdentity{10, 1}.packed());
    const OwnerWord second_ = with_kind(OwnerKind::process, ProcessIdentity{11, 1}.packed());
};

TEST_F(PortSpaceTest, ClaimedPortHasItsOwner) {
    EXPECT_TRUE(space_.claim(40000, first_));
    EXPECT_EQ(space_.owner(40000), first_);
    EXPECT_FALSE(space_.free.is_free(40000));
    EXPECT_FALSE(space_.resting.is_resting(40000));
    EXPECT_FALSE(space_.claim(40000, second_));
    EXPECT_EQ(space_.owner(40000), first_);
}

TEST_F(PortSpaceTest, OnlyTheOwnerReleases) {
    ASSERT_TRUE(space_.claim(40000, first_));
    EXPECT_FALSE(space_.release(40000, second_, table_->rest_rule()));
    EXPECT_TRUE(space_.release(40000, first_, table_->rest_rule()));
    EXPECT_FALSE(space_.release(40000, first_, table_->rest_rule()));
    EXPECT_EQ(space_.owner(40000), kNobody);
    EXPECT_TRUE(space_.free.is_free(40000));
}

TEST_F(PortSpaceTest, PortOutsideTheRangeIsNeverFreed) {
    bool was_kernels = true;
    ASSERT_TRUE(space_.claim_exactly(80, first_, [](OwnerWord) { return false; }, was_kernels));
    EXPECT_FALSE(was_kernels);
    EXPECT_TRUE(space_.release(80, first_, table_->rest_rule()));
    EXPECT_FALSE(space_.free.is_free(80));
}

// A sweeper may take a port for lost between a claimant's two steps, or free it after both.
TEST_F(PortSpaceTest, FreedPortWithAnOwnerIsNotGivenAndNotLost) {
    ASSERT_TRUE(space_.claim(40000, first_));
    space_.free.release(40000);
    EXPECT_FALSE(space_.claim(40000, second_));
    EXPECT_EQ(space_.owner(40000), first_);
    EXPECT_FALSE(space_.free.is_free(40000));
    EXPECT_TRUE(space_.release(40000, first_, table_->rest_rule()));
    EXPECT_TRUE(space_.claim(40000, second_));
}

TEST_F(PortSpaceTest, OwnerThatMayBeOverruledIsReplaced) {
    ASSERT_TRUE(space_.claim(40000, first_));
    bool was_kernels = false;
    EXPECT_FALSE(
        space_.claim_exactly(40000, second_, [](OwnerWord) { return false; }, was_kernels));
    EXPECT_TRUE(space_.claim_exactly(
        40000, second_, [this](OwnerWord word) { return word == first_; }, was_kernels));
    EXPECT_EQ(space_.owner(40000), second_);
    EXPECT_FALSE(was_kernels);
    ASSERT_TRUE(space_.replace_owner(40000, second_, kernel_word(7)));
    EXPECT_TRUE(space_.claim_exactly(40000, first_, [](OwnerWord) { return false; }, was_kernels));
    EXPECT_TRUE(was_kernels);
}

TEST(Owner, WordsSayWhoseTheyAre) {
    EXPECT_EQ(kind_of(kNobody), OwnerKind::nobody);
    EXPECT_EQ(kind_of(own_word()), OwnerKind::process);
    EXPECT_EQ(process_of(own_word() | kBoundFlag).pid, ::getpid());
    EXPECT_EQ(kind_of(kernel_word(~std::uint64_t{0})), OwnerKind::kernel);
    EXPECT_NE(kernel_word(1), kernel_word(2));
    const OwnerWord lease = lease_word(4095, ~std::uint64_t{0});
    EXPECT_EQ(kind_of(lease), OwnerKind::lease);
    EXPECT_EQ(lease_index_of(lease), 4095);
    EXPECT_NE(lease_word(7, 1), lease_word(7, 2));
    const OwnerWord connected = connected_word(0xfffff, ~std::uint64_t{0});
    EXPECT_EQ(kind_of(connected), OwnerKind::connected);
    EXPECT_EQ(connection_count_of(connected), 0xfffffU);
}

}  // namespace
}  // namespace berth::internal
