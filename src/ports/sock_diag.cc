// SPDX-License-Identifier: Apache-2.0
#include "src/ports/sock_diag.h"

#include "src/base/system_calls.h"

#include <berth/descriptor.h>

#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

namespace berth::internal {
namespace {

constexpr const char* kOperation = "read kernel sockets";
constexpr std::size_t kBufferSize = std::size_t{64} * 1024;  // The kernel fills at most 32 KiB.
constexpr std::size_t kMaxMessages = std::size_t{1} << 22;
constexpr time_t kReceiveTimeoutSeconds = 2;
constexpr int kMaxInterruptions = 1000;
constexpr std::uint32_t kSequence = 1;  // Each dump has a netlink socket of its own.

const char* subject_of(const DiagQuery& query) noexcept {
    if (query.protocol == Protocol::udp) {
        return query.family == Family::ipv4 ? "udp ipv4" : "udp ipv6";
    }
    return query.family == Family::ipv4 ? "tcp ipv4" : "tcp ipv6";
}

bool is_forbidden(int system_errno) noexcept {
    return system_errno == EPERM || system_errno == EACCES || system_errno == EAFNOSUPPORT ||
           system_errno == EPROTONOSUPPORT;
}

Error failure(const DiagQuery& query, int system_errno) noexcept {
    const char* subject = subject_of(query);
    if (system_errno == ENOENT) {
        const bool is_udp = query.protocol == Protocol::udp;
        return Error(Errc::unsupported, kOperation, subject, system_errno,
                     is_udp ? "the kernel has no inet_diag/udp_diag"
                            : "the kernel has no inet_diag/tcp_diag",
                     is_udp ? "try 'modprobe udp_diag'" : "try 'modprobe tcp_diag'");
    }
    if (system_errno == EAGAIN) {
        return Error(Errc::timed_out, kOperation, subject, system_errno,
                     "sock_diag has not answered for 2 seconds");
    }
    const char* remedy = is_forbidden(system_errno)
                             ? "sock_diag needs AF_NETLINK, which a sandbox (seccomp, SELinux, "
                               "RestrictAddressFamilies=) must allow"
                             : nullptr;
    return Error::from_errno(system_errno, kOperation, subject, remedy);
}

Error malformed(const DiagQuery& query, const char* reason) noexcept {
    return Error(Errc::system, kOperation, subject_of(query), EBADMSG, reason);
}

struct DumpRequest {
    nlmsghdr header;
    inet_diag_req_v2 body;
};
static_assert(sizeof(DumpRequest) == NLMSG_HDRLEN + sizeof(inet_diag_req_v2));

DumpRequest request_for(const DiagQuery& query) noexcept {
    DumpRequest request{};
    request.header.nlmsg_len = sizeof(request);
    request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.header.nlmsg_seq = kSequence;
    request.body.sdiag_family = query.family == Family::ipv4 ? AF_INET : AF_INET6;
    request.body.sdiag_protocol = query.protocol == Protocol::udp ? IPPROTO_UDP : IPPROTO_TCP;
    request.body.idiag_states = query.states;
    request.body.id.idiag_dport = htons(query.remote_port);
    return request;
}

// A netlink socket that talks to the kernel only.
class DiagSocket {
public:
    static Result<DiagSocket> open(const DiagQuery& query);

    std::uint32_t port_id() const noexcept { return port_id_; }
    Result<void> ask();
    /// One datagram, valid until the next call.
    Result<std::span<const std::byte>> receive();

private:
    DiagSocket(const DiagQuery& query, Descriptor descriptor, std::uint32_t port_id)
        : query_(query),
          descriptor_(std::move(descriptor)),
          port_id_(port_id),
          buffer_(kBufferSize) {}

    DiagQuery query_;
    Descriptor descriptor_;
    std::uint32_t port_id_;
    std::vector<std::byte> buffer_;
};

Result<DiagSocket> DiagSocket::open(const DiagQuery& query) {
    Descriptor descriptor(calls().socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!descriptor.is_open()) {
        return std::unexpected(failure(query, errno));
    }
    const timeval timeout{.tv_sec = kReceiveTimeoutSeconds, .tv_usec = 0};
    if (calls().setsockopt(descriptor.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) !=
        0) {
        return std::unexpected(failure(query, errno));
    }
    // Once connected to port id 0, the kernel, it takes no messages from other processes.
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    if (calls().connect(descriptor.get(), generic, size) != 0 ||
        calls().getsockname(descriptor.get(), generic, &size) != 0) {
        return std::unexpected(failure(query, errno));
    }
    return DiagSocket(query, std::move(descriptor), address.nl_pid);
}

Result<void> DiagSocket::ask() {
    const DumpRequest request = request_for(query_);
    for (int attempt = 0; attempt < kMaxInterruptions; ++attempt) {
        const ssize_t sent =
            calls().sendto(descriptor_.get(), &request, sizeof(request), 0, nullptr, 0);
        if (sent == static_cast<ssize_t>(sizeof(request))) {
            return {};
        }
        if (sent >= 0) {
            return std::unexpected(malformed(query_, "the request was cut short"));
        }
        if (errno != EINTR) {
            break;
        }
    }
    return std::unexpected(failure(query_, errno));
}

Result<std::span<const std::byte>> DiagSocket::receive() {
    for (int attempt = 0; attempt < kMaxInterruptions; ++attempt) {
        // With MSG_TRUNC the size is that of the datagram, also when it did not fit.
        const ssize_t size =
            calls().recv(descriptor_.get(), buffer_.data(), buffer_.size(), MSG_TRUNC);
        if (size >= 0 && static_cast<std::size_t>(size) > buffer_.size()) {
            return std::unexpected(malformed(query_, "the kernel's answer was truncated"));
        }
        if (size >= 0) {
            return std::span<const std::byte>(buffer_).first(static_cast<std::size_t>(size));
        }
        if (errno != EINTR) {
            break;
        }
    }
    return std::unexpected(failure(query_, errno));
}

// Takes a dump's datagrams apart.
class DumpReader {
public:
    DumpReader(const DiagQuery& query, std::uint32_t port_id, std::vector<KernelSocket>& found)
        : query_(query), port_id_(port_id), found_(found) {}

    bool is_done() const noexcept { return is_done_; }
    DumpEnd end() const noexcept { return end_; }
    Result<void> read_datagram(std::span<const std::byte> datagram);

private:
    Result<void> read_message(const nlmsghdr& message);
    Result<void> read_row(const nlmsghdr& message);
    Result<void> read_status(const nlmsghdr& message);

    DiagQuery query_;
    std::uint32_t port_id_;
    std::vector<KernelSocket>& found_;
    std::size_t message_count_ = 0;
    bool is_done_ = false;
    DumpEnd end_ = DumpEnd::complete;
};

Result<void> DumpReader::read_datagram(std::span<const std::byte> datagram) {
    if (datagram.empty()) {
        return std::unexpected(malformed(query_, "the kernel's answer was empty"));
    }
    // Not mnl_nlmsg_ok(), which takes a length above 2 GiB for a negative one that fits.
    while (!is_done_ && !datagram.empty()) {
        const auto* message = reinterpret_cast<const nlmsghdr*>(datagram.data());
        if (datagram.size() < sizeof(*message) || message->nlmsg_len < sizeof(*message) ||
            message->nlmsg_len > datagram.size()) {
            return std::unexpected(malformed(query_, "a netlink message has a wrong length"));
        }
        BERTH_TRY(read_message(*message));
        const std::size_t step = (std::size_t{message->nlmsg_len} + 3) & ~std::size_t{3};
        datagram = datagram.subspan(std::min(step, datagram.size()));
    }
    return {};
}

Result<void> DumpReader::read_message(const nlmsghdr& message) {
    if (++message_count_ > kMaxMessages) {
        return std::unexpected(Error(Errc::system, kOperation, subject_of(query_), EOVERFLOW,
                                     "no end of the list after 4,194,304 messages"));
    }
    if (message.nlmsg_seq != kSequence || message.nlmsg_pid != port_id_) {
        return std::unexpected(malformed(query_, "the answer belongs to another request"));
    }
    if ((message.nlmsg_flags & NLM_F_DUMP_INTR) != 0) {
        end_ = DumpEnd::changed_meanwhile;
    }
    switch (message.nlmsg_type) {
        case SOCK_DIAG_BY_FAMILY:
            return read_row(message);
        case NLMSG_DONE:
        case NLMSG_ERROR:
            return read_status(message);
        case NLMSG_OVERRUN:
            return std::unexpected(failure(query_, ENOBUFS));
        default:
            return {};
    }
}

Result<void> DumpReader::read_row(const nlmsghdr& message) {
    std::optional<KernelSocket> socket = parse_diag_row(message);
    if (!socket) {
        return std::unexpected(malformed(query_, "a row of the kernel's list is too short"));
    }
    // A socket that is only bound is asked for as state 13, and answered as its sk_state.
    if (query_.protocol == Protocol::tcp && socket->tcp_state == TCP_CLOSE) {
        socket->tcp_state = kTcpBoundOnly;
    }
    if (socket->local.port() != 0) {
        found_.push_back(*socket);
    }
    return {};
}

// Both carry an errno, negated. A dump that cannot even begin (no udp_diag) fails in NLMSG_DONE.
Result<void> DumpReader::read_status(const nlmsghdr& message) {
    const bool is_end = message.nlmsg_type == NLMSG_DONE;
    int status = 0;
    if (message.nlmsg_len >= NLMSG_HDRLEN + sizeof(status)) {
        std::memcpy(&status, mnl_nlmsg_get_payload(&message), sizeof(status));
    } else if (!is_end) {
        return std::unexpected(malformed(query_, "an error message is too short"));
    }
    if (status < 0) {
        return std::unexpected(failure(query_, -status));
    }
    is_done_ = is_end;
    return {};
}

}  // namespace

Result<DumpEnd> dump_sockets(const DiagQuery& query, std::vector<KernelSocket>& found) {
    DiagSocket socket = BERTH_TRY(DiagSocket::open(query));
    BERTH_TRY(socket.ask());
    DumpReader reader(query, socket.port_id(), found);
    while (!reader.is_done()) {
        const std::span<const std::byte> datagram = BERTH_TRY(socket.receive());
        BERTH_TRY(reader.read_datagram(datagram));
    }
    return reader.end();
}

}  // namespace berth::internal
