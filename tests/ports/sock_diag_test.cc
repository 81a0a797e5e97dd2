// SPDX-License-Identifier: Apache-2.0
#include "src/ports/sock_diag.h"

#include "tests/support/fault_injection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using test::Call;
using test::FaultPlan;
using test::NetlinkReply;
using test::ScriptEnd;
using test::Target;
using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

Bytes row(std::uint16_t port, std::uint16_t flags = 0) {
    inet_diag_msg message{};
    message.idiag_family = AF_INET;
    message.idiag_state = 7;
    message.id.idiag_sport = htons(port);
    return test::netlink_message(SOCK_DIAG_BY_FAMILY, flags | NLM_F_MULTI,
                                 std::as_bytes(std::span(&message, 1)));
}

Bytes status(std::uint16_t type, int value, std::uint16_t flags = 0) {
    return test::netlink_message(type, flags, std::as_bytes(std::span(&value, 1)));
}

Bytes done() { return status(NLMSG_DONE, 0); }

Bytes operator+(Bytes first, const Bytes& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

Bytes with_length(Bytes message, std::uint32_t length) {
    std::memcpy(message.data(), &length, sizeof(length));
    return message;
}

Result<KernelSockets> read_with(std::vector<NetlinkReply> replies,
                                ScriptEnd end = ScriptEnd::kernel) {
    FaultPlan faults;
    faults.answer_netlink(std::move(replies), end);
    return read_kernel_sockets(Protocol::udp);
}

void expect_failure(const Result<KernelSockets>& list, Errc code, const std::string& message) {
    ASSERT_FALSE(list);
    EXPECT_EQ(list.error().code(), code) << list.error().message();
    EXPECT_THAT(list.error().message(), HasSubstr(message));
}

const NetlinkReply kNoIpv6 = NetlinkReply::data(done());

TEST(SockDiag, ReadsRowsOfSeveralDatagrams) {
    const auto list = read_with({NetlinkReply::data(row(1) + row(2)), NetlinkReply::data(row(3)),
                                 NetlinkReply::data(row(4) + done()), kNoIpv6});
    ASSERT_TRUE(list) << list.error().message();
    EXPECT_EQ(list->sockets.size(), 4U);
    EXPECT_FALSE(list->was_interrupted);
}

TEST(SockDiag, InterruptedDumpIsReadAgainFromTheStart) {
    const Bytes interrupted = row(1, NLM_F_DUMP_INTR) + done();
    const auto list = read_with(
        {NetlinkReply::data(interrupted), NetlinkReply::data(row(2) + row(3) + done()), kNoIpv6});
    ASSERT_TRUE(list) << list.error().message();
    EXPECT_EQ(list->sockets.size(), 2U);
    EXPECT_FALSE(list->was_interrupted);
}

TEST(SockDiag, InterruptionIsNoticedInTheLastMessageToo) {
    const Bytes interrupted = row(1) + status(NLMSG_DONE, 0, NLM_F_DUMP_INTR);
    const auto list = read_with(
        {NetlinkReply::data(interrupted), NetlinkReply::data(row(2) + row(3) + done()), kNoIpv6});
    ASSERT_TRUE(list) << list.error().message();
    EXPECT_EQ(list->sockets.size(), 2U);
}

TEST(SockDiag, DumpInterruptedThreeTimesIsGivenWithAWarning) {
    const NetlinkReply interrupted = NetlinkReply::data(row(1, NLM_F_DUMP_INTR) + done());
    const auto list = read_with({interrupted, interrupted, interrupted, kNoIpv6});
    ASSERT_TRUE(list) << list.error().message();
    EXPECT_EQ(list->sockets.size(), 1U);
    EXPECT_TRUE(list->was_interrupted);
}

TEST(SockDiag, SignalsDoNotDisturb) {
    FaultPlan faults;
    faults.fail(Call::sendto, EINTR, 5, Target::netlink);
    const NetlinkReply interrupted = NetlinkReply::failure(EINTR);
    faults.answer_netlink({interrupted, NetlinkReply::data(row(1)), interrupted, interrupted,
                           NetlinkReply::data(done()), kNoIpv6});
    const auto list = read_kernel_sockets(Protocol::udp);
    ASSERT_TRUE(list) << list.error().message();
    EXPECT_EQ(list->sockets.size(), 1U);
}

TEST(SockDiag, EndlessSignalsAreAnError) {
    expect_failure(read_with({NetlinkReply::failure(EINTR)}, ScriptEnd::repeat_last),
                   Errc::interrupted, "udp ipv4");
}

TEST(SockDiag, LostDatagramsStartTheDumpAgain) {
    const auto list =
        read_with({NetlinkReply::data(row(1)), NetlinkReply::failure(ENOBUFS),
                   NetlinkReply::data(row(1)), NetlinkReply::data(status(NLMSG_OVERRUN, 0)),
                   NetlinkReply::data(row(1) + row(2) + done()), kNoIpv6});
    ASSERT_TRUE(list) << list.error().message();
    EXPECT_EQ(list->sockets.size(), 2U);
}

TEST(SockDiag, DatagramsLostThreeTimesAreOutOfMemory) {
    FaultPlan faults;
    faults.answer_netlink({NetlinkReply::failure(ENOBUFS)}, ScriptEnd::repeat_last);
    expect_failure(read_kernel_sockets(Protocol::udp), Errc::out_of_memory, "udp ipv4");
    EXPECT_EQ(faults.call_count(Call::recv, Target::netlink), 3U);
}

TEST(SockDiag, TruncatedDatagramIsAnError) {
    const Bytes rows = row(1) + done();
    expect_failure(read_with({NetlinkReply::truncated(rows, 1 << 20)}), Errc::system, "truncated");
}

TEST(SockDiag, LengthsThatLieAreErrorsAndNothingIsReadBeyond) {
    for (const std::uint32_t length : {0U, 1U, 15U, 1000U, 0x7fffffffU, 0x80000058U, 0xffffffffU}) {
        expect_failure(read_with({NetlinkReply::data(with_length(row(1), length))}), Errc::system,
                       "wrong length");
    }
    expect_failure(read_with({NetlinkReply::data(Bytes(7))}), Errc::system, "wrong length");
    expect_failure(read_with({NetlinkReply::data({})}), Errc::system, "empty");
    const Bytes short_row = test::netlink_message(SOCK_DIAG_BY_FAMILY, 0, Bytes(71));
    expect_failure(read_with({NetlinkReply::data(short_row)}), Errc::system, "too short");
    const Bytes short_error = test::netlink_message(NLMSG_ERROR, 0, Bytes(3));
    expect_failure(read_with({NetlinkReply::data(short_error)}), Errc::system, "too short");
}

TEST(SockDiag, AnswersToOtherRequestsAreErrors) {
    expect_failure(read_with({NetlinkReply::raw(row(1) + done())}), Errc::system,
                   "another request");
}

TEST(SockDiag, RefusalIsPermissionDenied) {
    for (const int error : {EPERM, EACCES}) {
        expect_failure(read_with({NetlinkReply::data(status(NLMSG_ERROR, -error))}),
                       Errc::permission_denied, "AF_NETLINK");
        FaultPlan faults;
        faults.fail(Call::socket, error, FaultPlan::kAlways, Target::netlink);
        expect_failure(read_kernel_sockets(Protocol::tcp), Errc::permission_denied, "sandbox");
    }
}

TEST(SockDiag, FailedRecvIsReportedWithItsErrno) {
    expect_failure(read_with({NetlinkReply::failure(EPERM)}), Errc::permission_denied, "udp ipv4");
    expect_failure(read_with({NetlinkReply::failure(EIO)}), Errc::system, "Input/output error");
}

// A dump that cannot begin ends at once, with the error in NLMSG_DONE; a request for a family
// without a handler is answered by NLMSG_ERROR.
TEST(SockDiag, MissingModuleIsUnsupportedAndNamed) {
    for (const std::uint16_t type : std::initializer_list<std::uint16_t>{NLMSG_DONE, NLMSG_ERROR}) {
        expect_failure(read_with({NetlinkReply::data(status(type, -ENOENT))}), Errc::unsupported,
                       "inet_diag/udp_diag; try 'modprobe udp_diag'");
    }
    FaultPlan faults;
    faults.answer_netlink({NetlinkReply::data(status(NLMSG_DONE, -ENOENT))});
    expect_failure(read_kernel_sockets(Protocol::tcp), Errc::unsupported, "inet_diag/tcp_diag");
}

TEST(SockDiag, KernelWithoutIpv6HasNoIpv6Sockets) {
    const auto list = read_with(
        {NetlinkReply::data(row(1) + done()), NetlinkReply::data(status(NLMSG_ERROR, -ENOENT))});
    ASSERT_TRUE(list) << list.error().message();
    EXPECT_EQ(list->sockets.size(), 1U);
}

TEST(SockDiag, KernelWithoutNetlinkIsUnsupported) {
    FaultPlan faults;
    faults.fail(Call::socket, EAFNOSUPPORT, FaultPlan::kAlways, Target::netlink);
    expect_failure(read_kernel_sockets(Protocol::udp), Errc::unsupported, "AF_NETLINK");
}

TEST(SockDiag, EveryFailingSystemCallIsAnError) {
    for (const Call call : {Call::socket, Call::setsockopt, Call::connect, Call::getsockname,
                            Call::sendto, Call::recv}) {
        FaultPlan faults;
        faults.fail(call, ENOMEM, 1, Target::netlink);
        expect_failure(read_kernel_sockets(Protocol::udp), Errc::out_of_memory, "udp ipv4");
        EXPECT_EQ(faults.failed_count(call), 1U);
    }
}

TEST(SockDiag, SilentKernelIsTimedOut) {
    expect_failure(read_with({NetlinkReply::data(row(1)), NetlinkReply::failure(EAGAIN)}),
                   Errc::timed_out, "2 seconds");
}

TEST(SockDiag, DumpThatNeverEndsIsAnError) {
    const Bytes nothing = test::netlink_message(NLMSG_NOOP, 0, {});
    Bytes datagram;
    for (int i = 0; i < 4096; ++i) {
        datagram.insert(datagram.end(), nothing.begin(), nothing.end());
    }
    expect_failure(read_with({NetlinkReply::data(datagram)}, ScriptEnd::repeat_last), Errc::system,
                   "no end of the list");
}

// Whatever a datagram holds, the reader stays inside it (the AddressSanitizer watches) and ends.
RC_GTEST_PROP(SockDiag, DamagedDatagramsAreReadInsideTheirBounds, ()) {
    Bytes datagram = row(1) + row(2) + status(NLMSG_DONE, 0);
    const auto damage_count = *rc::gen::inRange(1, 8);
    for (int i = 0; i < damage_count; ++i) {
        const auto at = *rc::gen::inRange<std::size_t>(0, datagram.size());
        datagram[at] = std::byte{*rc::gen::arbitrary<std::uint8_t>()};
    }
    datagram.resize(*rc::gen::inRange<std::size_t>(0, datagram.size() + 1));
    const auto list = read_with({NetlinkReply::data(datagram), kNoIpv6});
    RC_ASSERT(!list || list->sockets.size() <= 2U);
}

TEST(SockDiag, KnowsWhichReleasesListBoundOnlySockets) {
    for (const char* release : {"6.8.0", "6.8", "6.10.1-arch1", "6.18.44-x", "7.0", "10.1"}) {
        EXPECT_TRUE(release_lists_bound_only(release)) << release;
    }
    for (const char* release : {"", "6", "6.", "5.15.0-91-generic", "6.1.0-13-amd64", "6.7.12",
                                "2.6.60", "linux", "-7.1", "99999999999.9"}) {
        EXPECT_FALSE(release_lists_bound_only(release)) << release;
    }
}

class DiagRow : public testing::Test {
protected:
    // A row of `::` with whatever attributes follow.
    static std::optional<KernelSocket> parse(const Bytes& attributes) {
        inet_diag_msg message{};
        message.idiag_family = AF_INET6;
        message.id.idiag_sport = htons(53);
        const auto fixed_part = std::as_bytes(std::span(&message, 1));
        const Bytes payload = Bytes(fixed_part.begin(), fixed_part.end()) + attributes;
        const Bytes bytes = test::netlink_message(SOCK_DIAG_BY_FAMILY, 0, payload);
        // An allocation of exactly this size, for the AddressSanitizer to watch.
        return parse_diag_row(*reinterpret_cast<const nlmsghdr*>(bytes.data()));
    }

    static Bytes attribute(std::uint16_t length, std::uint16_t type, const Bytes& payload) {
        Bytes bytes(sizeof(nlattr));
        std::memcpy(bytes.data(), &length, sizeof(length));
        std::memcpy(bytes.data() + sizeof(length), &type, sizeof(type));
        return bytes + payload;
    }
};

TEST_F(DiagRow, WithoutTheAttributeTheWildcardCountsAsDualStack) {
    EXPECT_TRUE(parse({})->is_dual_stack);
}

TEST_F(DiagRow, AttributeIsFoundBehindOthers) {
    const Bytes other = attribute(8, INET_DIAG_SHUTDOWN, Bytes(4));
    const Bytes set = attribute(5, INET_DIAG_SKV6ONLY, Bytes(4, std::byte{1}));
    const Bytes unset = attribute(5, INET_DIAG_SKV6ONLY, Bytes(4));
    EXPECT_FALSE(parse(other + set)->is_dual_stack);
    EXPECT_TRUE(parse(other + unset)->is_dual_stack);
}

TEST_F(DiagRow, AttributesWithWrongLengthsAreNotFollowed) {
    for (const std::uint16_t length :
         std::initializer_list<std::uint16_t>{0, 3, 4, 9, 200, 65535}) {
        EXPECT_TRUE(parse(attribute(length, INET_DIAG_SKV6ONLY, Bytes(4)))->is_dual_stack);
    }
    EXPECT_TRUE(parse(Bytes(1))->is_dual_stack);
    EXPECT_TRUE(parse(Bytes(3, std::byte{0xff}))->is_dual_stack);
}

TEST_F(DiagRow, LinkLocalAddressesKeepTheirInterface) {
    inet_diag_msg message{};
    message.idiag_family = AF_INET6;
    message.id.idiag_sport = htons(53);
    message.id.idiag_src[0] = htonl(0xfe800000);
    message.id.idiag_src[3] = htonl(1);
    message.id.idiag_if = 7;
    const Bytes bytes =
        test::netlink_message(SOCK_DIAG_BY_FAMILY, 0, std::as_bytes(std::span(&message, 1)));
    const auto socket = parse_diag_row(*reinterpret_cast<const nlmsghdr*>(bytes.data()));
    ASSERT_TRUE(socket);
    EXPECT_EQ(socket->local.scope_id(), 7U);
    EXPECT_FALSE(socket->is_dual_stack);
}

TEST_F(DiagRow, OtherFamiliesAreRefused) {
    inet_diag_msg message{};
    message.idiag_family = AF_UNIX;
    const Bytes bytes =
        test::netlink_message(SOCK_DIAG_BY_FAMILY, 0, std::as_bytes(std::span(&message, 1)));
    EXPECT_FALSE(parse_diag_row(*reinterpret_cast<const nlmsghdr*>(bytes.data())));
}

}  // namespace
}  // namespace berth::internal
