// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fault_injection.h"

#include <linux/netlink.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

namespace berth::test {
namespace {

using internal::kernel_calls;

bool is_netlink_socket(int fd) noexcept {
    int domain = 0;
    socklen_t size = sizeof(domain);
    const int saved_errno = errno;
    const int result = kernel_calls().getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    errno = saved_errno;
    return result == 0 && domain == AF_NETLINK;
}

Target target_of(const CallDetails& details) noexcept {
    const bool is_netlink =
        details.call == Call::socket ? details.domain == AF_NETLINK : is_netlink_socket(details.fd);
    return is_netlink ? Target::netlink : Target::internet;
}

bool includes(Target wanted, Target actual) noexcept {
    return wanted == Target::any || wanted == actual;
}

// Calls `visit` with each whole message of a datagram.
template <class Visitor>
void for_each_message(std::byte* data, std::size_t size, Visitor visit) {
    std::size_t at = 0;
    while (size - at >= sizeof(nlmsghdr)) {
        nlmsghdr header;
        std::memcpy(&header, data + at, sizeof(header));
        visit(header);
        std::memcpy(data + at, &header, sizeof(header));
        const std::size_t step = (std::size_t{header.nlmsg_len} + 3) & ~std::size_t{3};
        if (step < sizeof(header) || step > size - at) {
            return;
        }
        at += step;
    }
}

std::uint32_t port_id_of(int fd) noexcept {
    sockaddr_nl address{};
    socklen_t size = sizeof(address);
    kernel_calls().getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    return address.nl_pid;
}

}  // namespace

class FaultState {
public:
    void add(Call call, int error, unsigned times, Target target, FaultPlan::Predicate predicate) {
        rules_.emplace_back(call, target, error, times, std::move(predicate));
    }

    void set_script(std::vector<NetlinkReply> replies, ScriptEnd end) {
        replies_ = std::move(replies);
        script_end_ = end;
        next_reply_ = 0;
    }

    /// True when a rule wants the call to fail; errno is set then.
    bool intercept(const CallDetails& details) noexcept;
    void remember_request(const void* data, std::size_t size) noexcept;
    ssize_t receive(int fd, void* data, std::size_t size, int flags);

    std::size_t call_count(Call call, Target target) const noexcept {
        const Counters& counters = counters_[static_cast<std::size_t>(call)];
        return (includes(target, Target::internet) ? counters.internet.load() : 0) +
               (includes(target, Target::netlink) ? counters.netlink.load() : 0);
    }
    std::size_t failed_count(Call call) const noexcept {
        return counters_[static_cast<std::size_t>(call)].failed;
    }

private:
    struct Rule {
        Rule(Call rule_call, Target rule_target, int rule_error, unsigned times,
             FaultPlan::Predicate rule_predicate)
            : call(rule_call),
              target(rule_target),
              error(rule_error),
              times_left(times),
              predicate(std::move(rule_predicate)) {}

        bool applies_to(const CallDetails& details, Target actual) const {
            return call == details.call && includes(target, actual) &&
                   (!predicate || predicate(details));
        }
        /// Uses the rule once; false when it is used up.
        bool use() noexcept {
            unsigned left = times_left.load();
            while (left != 0 && left != FaultPlan::kAlways) {
                if (times_left.compare_exchange_weak(left, left - 1)) {
                    return true;
                }
            }
            return left == FaultPlan::kAlways;
        }

        Call call;
        Target target;
        int error;
        std::atomic<unsigned> times_left;
        FaultPlan::Predicate predicate;
    };
    struct Counters {
        std::atomic<std::size_t> internet{0};
        std::atomic<std::size_t> netlink{0};
        std::atomic<std::size_t> failed{0};
    };

    ssize_t receive_from_kernel(const NetlinkReply& reply, int fd, std::span<std::byte> buffer,
                                int flags);
    ssize_t receive_bytes(const NetlinkReply& reply, int fd, std::span<std::byte> buffer,
                          int flags);

    std::deque<Rule> rules_;
    std::array<Counters, kCallCount> counters_;
    std::vector<NetlinkReply> replies_;
    ScriptEnd script_end_ = ScriptEnd::kernel;
    std::atomic<std::size_t> next_reply_{0};
    std::atomic<std::uint32_t> last_sequence_{0};
};

namespace {

// System calls are plain functions, so the plan they consult is found here.
std::atomic<FaultState*> active_state{nullptr};

bool intercept(const CallDetails& details) noexcept {
    return active_state.load()->intercept(details);
}

int faulty_socket(int domain, int type, int protocol) {
    const bool fails = intercept({.call = Call::socket, .domain = domain});
    return fails ? -1 : kernel_calls().socket(domain, type, protocol);
}

int faulty_bind(int fd, const sockaddr* address, socklen_t size) {
    const bool fails = intercept({.call = Call::bind, .fd = fd, .address = address});
    return fails ? -1 : kernel_calls().bind(fd, address, size);
}

int faulty_connect(int fd, const sockaddr* address, socklen_t size) {
    const bool fails = intercept({.call = Call::connect, .fd = fd, .address = address});
    return fails ? -1 : kernel_calls().connect(fd, address, size);
}

int faulty_getsockname(int fd, sockaddr* address, socklen_t* size) {
    const bool fails = intercept({.call = Call::getsockname, .fd = fd});
    return fails ? -1 : kernel_calls().getsockname(fd, address, size);
}

int faulty_getsockopt(int fd, int level, int name, void* value, socklen_t* size) {
    const bool fails =
        intercept({.call = Call::getsockopt, .fd = fd, .level = level, .option = name});
    return fails ? -1 : kernel_calls().getsockopt(fd, level, name, value, size);
}

int faulty_setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
    const bool fails = intercept({.call = Call::setsockopt,
                                  .fd = fd,
                                  .level = level,
                                  .option = name,
                                  .value = value,
                                  .value_size = size});
    return fails ? -1 : kernel_calls().setsockopt(fd, level, name, value, size);
}

ssize_t faulty_sendto(int fd, const void* data, size_t size, int flags, const sockaddr* to,
                      socklen_t to_size) {
    if (intercept({.call = Call::sendto, .fd = fd, .address = to})) {
        return -1;
    }
    if (is_netlink_socket(fd)) {
        active_state.load()->remember_request(data, size);
    }
    return kernel_calls().sendto(fd, data, size, flags, to, to_size);
}

ssize_t faulty_recv(int fd, void* data, size_t size, int flags) {
    if (intercept({.call = Call::recv, .fd = fd})) {
        return -1;
    }
    if (!is_netlink_socket(fd)) {
        return kernel_calls().recv(fd, data, size, flags);
    }
    return active_state.load()->receive(fd, data, size, flags);
}

// The calls without a stand-in here are the kernel's own.
const internal::SystemCalls kFaultyCalls = [] {
    internal::SystemCalls calls = kernel_calls();
    calls.socket = faulty_socket;
    calls.bind = faulty_bind;
    calls.connect = faulty_connect;
    calls.getsockname = faulty_getsockname;
    calls.getsockopt = faulty_getsockopt;
    calls.setsockopt = faulty_setsockopt;
    calls.sendto = faulty_sendto;
    calls.recv = faulty_recv;
    return calls;
}();

}  // namespace

std::uint16_t CallDetails::port() const noexcept {
    if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) {
        return 0;
    }
    // Both families have the port behind the family.
    std::uint16_t network_order = 0;
    std::memcpy(&network_order, address->sa_data, sizeof(network_order));
    return ntohs(network_order);
}

bool FaultState::intercept(const CallDetails& details) noexcept {
    const Target actual = target_of(details);
    Counters& counters = counters_[static_cast<std::size_t>(details.call)];
    ++(actual == Target::netlink ? counters.netlink : counters.internet);
    for (Rule& rule : rules_) {
        if (rule.applies_to(details, actual) && rule.use()) {
            ++counters.failed;
            errno = rule.error;
            return true;
        }
    }
    return false;
}

void FaultState::remember_request(const void* data, std::size_t size) noexcept {
    nlmsghdr header{};
    std::memcpy(&header, data, std::min(size, sizeof(header)));
    last_sequence_ = header.nlmsg_seq;
}

ssize_t FaultState::receive(int fd, void* data, std::size_t size, int flags) {
    std::size_t index = next_reply_++;
    if (index >= replies_.size() && script_end_ == ScriptEnd::repeat_last && !replies_.empty()) {
        index = replies_.size() - 1;
    }
    if (index >= replies_.size()) {
        return kernel_calls().recv(fd, data, size, flags);
    }
    const NetlinkReply& reply = replies_[index];
    const std::span<std::byte> buffer(static_cast<std::byte*>(data), size);
    switch (reply.kind_) {
        case NetlinkReply::Kind::failure:
            errno = reply.error_;
            return -1;
        case NetlinkReply::Kind::kernel:
            return receive_from_kernel(reply, fd, buffer, flags);
        default:
            return receive_bytes(reply, fd, buffer, flags);
    }
}

ssize_t FaultState::receive_from_kernel(const NetlinkReply& reply, int fd,
                                        std::span<std::byte> buffer, int flags) {
    const ssize_t size = kernel_calls().recv(fd, buffer.data(), buffer.size(), flags);
    if (size > 0) {
        for_each_message(buffer.data(), std::min(buffer.size(), static_cast<std::size_t>(size)),
                         [&reply](nlmsghdr& header) {
                             header.nlmsg_flags = static_cast<std::uint16_t>(header.nlmsg_flags |
                                                                             reply.added_flags_);
                         });
    }
    return size;
}

ssize_t FaultState::receive_bytes(const NetlinkReply& reply, int fd, std::span<std::byte> buffer,
                                  int flags) {
    const std::size_t count = std::min(buffer.size(), reply.bytes_.size());
    std::copy_n(reply.bytes_.begin(), count, buffer.begin());
    if (reply.kind_ == NetlinkReply::Kind::data) {
        const std::uint32_t port_id = port_id_of(fd);
        for_each_message(buffer.data(), count, [this, port_id](nlmsghdr& header) {
            header.nlmsg_seq = last_sequence_;
            header.nlmsg_pid = port_id;
        });
    }
    const std::size_t full_size = std::max(reply.bytes_.size(), reply.full_size_);
    return static_cast<ssize_t>((flags & MSG_TRUNC) != 0 ? full_size : count);
}

NetlinkReply NetlinkReply::kernel() { return {}; }

NetlinkReply NetlinkReply::kernel_with_flags(std::uint16_t flags) {
    NetlinkReply reply;
    reply.added_flags_ = flags;
    return reply;
}

NetlinkReply NetlinkReply::failure(int error) {
    NetlinkReply reply;
    reply.kind_ = Kind::failure;
    reply.error_ = error;
    return reply;
}

NetlinkReply NetlinkReply::data(std::vector<std::byte> bytes) {
    NetlinkReply reply;
    reply.kind_ = Kind::data;
    reply.bytes_ = std::move(bytes);
    return reply;
}

NetlinkReply NetlinkReply::raw(std::vector<std::byte> bytes) {
    NetlinkReply reply = data(std::move(bytes));
    reply.kind_ = Kind::raw;
    return reply;
}

NetlinkReply NetlinkReply::truncated(std::vector<std::byte> bytes, std::size_t full_size) {
    NetlinkReply reply = data(std::move(bytes));
    reply.full_size_ = full_size;
    return reply;
}

std::vector<std::byte> netlink_message(std::uint16_t type, std::uint16_t flags,
                                       std::span<const std::byte> payload) {
    const std::size_t size = sizeof(nlmsghdr) + payload.size();
    std::vector<std::byte> bytes((size + 3) & ~std::size_t{3});
    nlmsghdr header{};
    header.nlmsg_len = static_cast<std::uint32_t>(size);
    header.nlmsg_type = type;
    header.nlmsg_flags = flags;
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::ranges::copy(payload, bytes.begin() + sizeof(header));
    return bytes;
}

FaultPlan::FaultPlan() : state_(std::make_unique<FaultState>()), scope_(kFaultyCalls) {
    FaultState* nobody = nullptr;
    if (!active_state.compare_exchange_strong(nobody, state_.get())) {
        std::abort();  // Two plans at once.
    }
}

FaultPlan::~FaultPlan() { active_state = nullptr; }

FaultPlan& FaultPlan::fail(Call call, int error, unsigned times, Target target) {
    state_->add(call, error, times, target, nullptr);
    return *this;
}

FaultPlan& FaultPlan::fail_if(Call call, int error, Predicate predicate, unsigned times) {
    state_->add(call, error, times, Target::internet, std::move(predicate));
    return *this;
}

FaultPlan& FaultPlan::answer_netlink(std::vector<NetlinkReply> replies, ScriptEnd end) {
    state_->set_script(std::move(replies), end);
    return *this;
}

std::size_t FaultPlan::call_count(Call call, Target target) const noexcept {
    return state_->call_count(call, target);
}

std::size_t FaultPlan::failed_count(Call call) const noexcept { return state_->failed_count(call); }

}  // namespace berth::test
