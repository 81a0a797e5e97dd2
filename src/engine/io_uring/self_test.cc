// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/self_test.h"

#include "src/engine/io_uring/buffer_group.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

namespace berth::internal {
namespace {

constexpr std::uint64_t kReceive = 1;
constexpr std::uint64_t kSend = 2;
constexpr std::uint16_t kGroup = 1;

struct Pair {
    Descriptor near;
    Descriptor far;
};

Result<Pair> open_pair() {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
        return std::unexpected(Error::from_errno(errno, "open", "socket pair"));
    }
    return Pair{Descriptor(fds[0]), Descriptor(fds[1])};
}

Error broken(const char* what) noexcept {
    return {Errc::unsupported, "use", "io_uring", 0, what, "use epoll, or Linux 6.1 or newer"};
}

// The completions that are there after one turn.
std::vector<io_uring_cqe> turn(Ring& ring) {
    std::vector<io_uring_cqe> seen;
    if (ring.enter(false, 0) == 0) {
        ring.drain([&seen](const io_uring_cqe& completion) { seen.push_back(completion); });
    }
    return seen;
}

bool is_text(BufferGroup& buffers, const io_uring_cqe& completion, std::string_view text) {
    if (completion.user_data != kReceive || (completion.flags & IORING_CQE_F_BUFFER) == 0 ||
        completion.res != static_cast<int>(text.size())) {
        return false;
    }
    const std::uint32_t buffer = completion.flags >> IORING_CQE_BUFFER_SHIFT;
    buffers.take(buffer);
    const bool is_equal = std::memcmp(buffers.data(buffer), text.data(), text.size()) == 0;
    buffers.give_back(buffer);
    return is_equal && (completion.flags & IORING_CQE_F_MORE) != 0;
}

Result<void> test_receive(Ring& ring, BufferGroup& buffers) {
    Pair pair = BERTH_TRY(open_pair());
    if (buffers.open(ring) < 0) {
        return std::unexpected(broken("the kernel registers no ring of buffers"));
    }
    io_uring_sqe& receive = ring.next_entry();
    receive.opcode = IORING_OP_RECV;
    receive.fd = pair.near.get();
    receive.flags = IOSQE_BUFFER_SELECT;
    receive.buf_group = kGroup;
    receive.ioprio = IORING_RECV_MULTISHOT;
    receive.user_data = kReceive;
    bool is_right = turn(ring).empty();
    for (const std::string_view text : {"one", "three"}) {
        is_right = is_right && ::send(pair.far.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
                                   static_cast<ssize_t>(text.size());
        const auto seen = turn(ring);
        is_right = is_right && seen.size() == 1 && is_text(buffers, seen[0], text);
    }
    pair.far.reset();
    const auto end = turn(ring);
    is_right =
        is_right && end.size() == 1 && end[0].res == 0 && (end[0].flags & IORING_CQE_F_MORE) == 0;
    if (!is_right) {
        return std::unexpected(broken("multishot receive from a ring of buffers does not work"));
    }
    return {};
}

void send_silently(Ring& ring, const Pair& pair, const std::vector<std::byte>& data) {
    io_uring_sqe& send = ring.next_entry();
    send.opcode = IORING_OP_SEND;
    send.fd = pair.near.get();
    send.addr = reinterpret_cast<std::uint64_t>(data.data());
    send.len = static_cast<std::uint32_t>(data.size());
    send.msg_flags = MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL;
    send.flags = IOSQE_CQE_SKIP_SUCCESS;
    send.user_data = kSend;
}

// One that fits says nothing; one that does not says how much of it went.
Result<void> test_send(Ring& ring) {
    const Pair pair = BERTH_TRY(open_pair());
    const int size = 4096;
    ::setsockopt(pair.near.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    const std::vector<std::byte> little(100);
    const std::vector<std::byte> much(1 << 20);
    send_silently(ring, pair, little);
    bool is_right = turn(ring).empty();
    send_silently(ring, pair, much);
    const auto seen = turn(ring);
    is_right = is_right && seen.size() == 1 && seen[0].user_data == kSend &&
               (seen[0].res == -EAGAIN ||
                (seen[0].res > 0 && seen[0].res < static_cast<int>(much.size())));
    if (!is_right) {
        return std::unexpected(broken("sends that tell only of failure do not work"));
    }
    return {};
}

}  // namespace

Result<void> test_ring(Ring& ring) {
    BufferGroup buffers({.group = kGroup,
                         .buffer_size = 512,
                         .first_target = 8,
                         .most_target = 8,
                         .most_buffers = 8});
    BERTH_TRY(test_receive(ring, buffers));
    io_uring_buf_reg registration{};
    registration.bgid = kGroup;
    ring.register_with(IORING_UNREGISTER_PBUF_RING, &registration, 1);
    return test_send(ring);
}

}  // namespace berth::internal
