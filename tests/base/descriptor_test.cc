// SPDX-License-Identifier: Apache-2.0
#include <berth/descriptor.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

namespace berth {
namespace {

Descriptor make_descriptor() { return Descriptor(::eventfd(0, EFD_CLOEXEC)); }

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(Descriptor, DestructorCloses) {
    int fd = -1;
    {
        const Descriptor descriptor = make_descriptor();
        fd = descriptor.get();
        ASSERT_TRUE(is_open(fd));
    }
    EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, MoveLeavesNothingBehind) {
    Descriptor from = make_descriptor();
    const int fd = from.get();
    const Descriptor to = std::move(from);
    EXPECT_FALSE(from.is_open());  // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_EQ(to.get(), fd);
    EXPECT_TRUE(is_open(fd));
}

TEST(Descriptor, MoveAssignmentClosesWhatWasHeld) {
    Descriptor descriptor = make_descriptor();
    const int first = descriptor.get();
    descriptor = make_descriptor();
    EXPECT_FALSE(is_open(first));
    EXPECT_TRUE(is_open(descriptor.get()));
}

TEST(Descriptor, SelfMoveAndResetToItselfKeepIt) {
    Descriptor descriptor = make_descriptor();
    Descriptor& same = descriptor;
    descriptor = std::move(same);
    descriptor.reset(descriptor.get());
    EXPECT_TRUE(is_open(descriptor.get()));
}

TEST(Descriptor, ReleaseGivesItAway) {
    Descriptor descriptor = make_descriptor();
    const int fd = descriptor.release();
    EXPECT_FALSE(descriptor.is_open());
    descriptor.reset();
    EXPECT_TRUE(is_open(fd));
    const Descriptor again(fd);
}

TEST(Descriptor, ClosingKeepsErrno) {
    Descriptor never_opened(1 << 30);
    errno = ENOENT;
    never_opened.reset();
    EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace berth
