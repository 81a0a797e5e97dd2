// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/transfer.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace berth::internal::simulated {
namespace {

std::string text_of(const Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Source, GathersAcrossPartsAlsoEmptyOnes) {
    std::array<char, 3> first = {'a', 'b', 'c'};
    std::array<char, 2> second = {'d', 'e'};
    const std::array<iovec, 3> parts = {
        {{first.data(), first.size()}, {nullptr, 0}, {second.data(), second.size()}}};
    Source source{std::span<const iovec>(parts)};
    EXPECT_EQ(source.remaining(), 5U);
    EXPECT_EQ(text_of(source.take(2)), "ab");
    EXPECT_EQ(text_of(source.take(3)), "cde");
    EXPECT_EQ(source.remaining(), 0U);
}

TEST(Source, ACutHidesTheRest) {
    Source source("abcdef", 6);
    source.cut(10);
    EXPECT_EQ(source.remaining(), 6U);
    source.cut(2);
    EXPECT_EQ(text_of(source.take(source.remaining())), "ab");
}

TEST(Sink, ScattersAndSaysHowMuchFits) {
    std::array<char, 2> first{};
    std::array<char, 3> second{};
    const std::array<iovec, 2> parts = {
        {{first.data(), first.size()}, {second.data(), second.size()}}};
    Sink sink{std::span<const iovec>(parts)};
    const std::string_view text = "abcdefgh";
    EXPECT_EQ(sink.put(std::as_bytes(std::span(text))), 5U);
    EXPECT_EQ(std::string_view(first.data(), 2), "ab");
    EXPECT_EQ(std::string_view(second.data(), 3), "cde");
    EXPECT_EQ(sink.put(std::as_bytes(std::span(text))), 0U);
}

TEST(CopyName, CutsAndReportsTheFullSize) {
    SocketName name;
    name.size = sizeof(sockaddr_in);
    name.storage.ss_family = AF_INET;
    sockaddr_storage to{};
    socklen_t size = 2;
    EXPECT_EQ(copy_name(name, reinterpret_cast<sockaddr*>(&to), &size), 0);
    EXPECT_EQ(size, sizeof(sockaddr_in));
    EXPECT_EQ(to.ss_family, AF_INET);
    EXPECT_EQ(copy_name(name, nullptr, nullptr), 0);
    size = static_cast<socklen_t>(-1);
    EXPECT_EQ(copy_name(name, reinterpret_cast<sockaddr*>(&to), &size), -EINVAL);
}

TEST(ControlMessages, AreFoundBehindOthersAndNotInTornOnes) {
    Bytes control;
    put_control(control, SOL_SOCKET, 77, 1);
    put_control(control, SOL_UDP, 103, 1200);
    EXPECT_EQ(find_control(control, SOL_UDP, 103), 1200);
    EXPECT_FALSE(find_control(control, SOL_UDP, 104));
    control.resize(control.size() / 2 + 3);
    EXPECT_FALSE(find_control(control, SOL_UDP, 103));
    EXPECT_FALSE(find_control({}, SOL_UDP, 103));
}

TEST(FillHeader, SaysWhenControlMessagesDidNotFit) {
    Incoming incoming{.data = Sink(nullptr, 0), .from = {}, .control = {}};
    put_control(incoming.control, SOL_UDP, 104, 5);
    std::array<std::byte, 8> room{};
    msghdr header{};
    header.msg_control = room.data();
    header.msg_controllen = room.size();
    fill_header(incoming, header);
    EXPECT_EQ(header.msg_flags, MSG_CTRUNC);
    EXPECT_EQ(header.msg_controllen, room.size());
}

}  // namespace
}  // namespace berth::internal::simulated
