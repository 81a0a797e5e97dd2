// SPDX-License-Identifier: Apache-2.0
#include "tests/support/send_descriptor.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace berth::test {

void send_descriptor(int socket, std::string_view text, int descriptor) {
    iovec part = {const_cast<char*>(text.data()), text.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof descriptor)> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    ASSERT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(text.size()));
}

}  // namespace berth::test
