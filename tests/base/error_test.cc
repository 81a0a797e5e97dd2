// SPDX-License-Identifier: Apache-2.0
#include <berth/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>

namespace berth {
namespace {

using testing::HasSubstr;

TEST(Error, ExhaustionNamesRangeTopHolderAndRemedy) {
    Error error(Errc::ports_exhausted, "bind udp", "0.0.0.0", EADDRINUSE);
    error.with_exhaustion({.taken_count = 28232,
                           .first = 32768,
                           .last = 60999,
                           .top_holder_pid = 812,
                           .top_holder_count = 27981});
    EXPECT_EQ(error.message(),
              "bind udp 0.0.0.0: all 28232 ports of 32768-60999 are taken (most by pid 812: 27981);"
              " stop what holds them, or widen net.ipv4.ip_local_port_range");
}

TEST(Error, ExhaustionByStrangersNamesNoPid) {
    Error error(Errc::ports_exhausted, "bind tcp", "[::]");
    error.with_exhaustion({.taken_count = 9, .first = 5000, .last = 5009, .top_holder_count = 7});
    EXPECT_THAT(error.message(), HasSubstr("all 9 usable ports of 5000-5009 are taken (most by "
                                           "sockets outside berth: 7);"));
}

// Reserved ones, and such as others hold towards the destination.
TEST(Error, ExhaustionWithNothingTakenReadsAsASentence) {
    Error error(Errc::ports_exhausted, "connect", "127.0.0.1:8080");
    error.with_exhaustion({.first = 40000, .last = 40001});
    EXPECT_THAT(error.message(),
                HasSubstr("connect 127.0.0.1:8080: no port of 40000-40001 can be had; "));
}

TEST(Error, ExhaustionOfOnePortReadsAsASentence) {
    Error error(Errc::ports_exhausted, "take");
    error.with_exhaustion({.taken_count = 1, .first = 5000, .last = 5000});
    EXPECT_THAT(error.message(), HasSubstr("take: the only port of 5000-5000 is taken; "));
}

TEST(Error, ExhaustionWithoutFiguresStillSaysWhatToDo) {
    const Error error(Errc::ports_exhausted, "take");
    EXPECT_EQ(error.message(),
              "take: no local port is left; stop what holds them, or widen "
              "net.ipv4.ip_local_port_range");
}

TEST(Error, MessageHasOperationSubjectCauseReasonAndRemedy) {
    const Error error(Errc::permission_denied, "open", "/dev/shm/x", EACCES, "its mode is 0644",
                      "chmod 600 it");
    EXPECT_EQ(error.message(),
              "open /dev/shm/x: permission denied (errno 13): its mode is 0644; chmod 600 it");
}

TEST(Error, UnknownErrnoUsesTheKernelsWords) {
    const Error error = Error::from_errno(EXDEV, "open", "x");
    EXPECT_EQ(error.code(), Errc::system);
    EXPECT_EQ(error.system_errno(), EXDEV);
    EXPECT_EQ(error.message(), "open x: Invalid cross-device link (errno 18)");
    EXPECT_EQ(Error::from_errno(99999, "open").message(), "open: system error (errno 99999)");
}

TEST(Error, DescriptorExhaustionNamesTheLimitThatWasHit) {
    EXPECT_THAT(Error::from_errno(EMFILE, "open").message(), HasSubstr("ulimit -n"));
    EXPECT_THAT(Error::from_errno(ENFILE, "open").message(), HasSubstr("fs.file-max"));
}

TEST(Error, LongSubjectIsCutNotOverrun) {
    const std::string subject(200, 'x');
    const Error error(Errc::invalid_argument, "parse", subject);
    EXPECT_EQ(error.subject(), std::string(63, 'x'));
}

TEST(Error, ErrnoChoosesTheCode) {
    const std::pair<int, Errc> expected[] = {
        {EADDRINUSE, Errc::port_in_use},
        {EADDRNOTAVAIL, Errc::address_not_available},
        {EINVAL, Errc::invalid_argument},
        {EACCES, Errc::permission_denied},
        {EPERM, Errc::permission_denied},
        {EAFNOSUPPORT, Errc::unsupported},
        {ENOPROTOOPT, Errc::unsupported},
        {EMFILE, Errc::descriptors_exhausted},
        {ENFILE, Errc::descriptors_exhausted},
        {ENOMEM, Errc::out_of_memory},
        {ENOBUFS, Errc::out_of_memory},
        {ECONNREFUSED, Errc::refused},
        {ECONNRESET, Errc::reset},
        {ENETUNREACH, Errc::unreachable},
        {EHOSTUNREACH, Errc::unreachable},
        {ETIMEDOUT, Errc::timed_out},
        {EINTR, Errc::interrupted},
        {EIO, Errc::system},
    };
    for (const auto& [system_errno, code] : expected) {
        EXPECT_EQ(Error::from_errno(system_errno, "try").code(), code) << system_errno;
    }
}

TEST(Error, EveryCodeHasANameOfItsOwn) {
    std::set<std::string_view> names;
    for (int code = 0; code <= static_cast<int>(Errc::system); ++code) {
        names.insert(to_string(static_cast<Errc>(code)));
    }
    EXPECT_EQ(names.size(), static_cast<std::size_t>(Errc::system) + 1);
}

Result<std::unique_ptr<int>> make(bool works) {
    if (!works) {
        return std::unexpected(Error(Errc::timed_out, "make"));
    }
    return std::make_unique<int>(7);
}

Result<void> check(bool works) {
    if (!works) {
        return std::unexpected(Error(Errc::refused, "check"));
    }
    return {};
}

Result<int> use(bool can_make, bool can_check) {
    const std::unique_ptr<int> made = BERTH_TRY(make(can_make));
    BERTH_TRY(check(can_check));
    return *made;
}

TEST(BerthTry, YieldsTheValueOrReturnsTheError) {
    EXPECT_EQ(use(true, true), 7);
    EXPECT_EQ(use(false, true).error().code(), Errc::timed_out);
    EXPECT_EQ(use(true, false).error().code(), Errc::refused);
}

}  // namespace
}  // namespace berth
