// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes system calls fail on purpose. A FaultPlan stands between berth and the kernel for its
// lifetime, counts every call, answers those that its rules name, and passes the rest on.
//
//   FaultPlan faults;
//   faults.fail(Call::bind, EADDRINUSE, 3);                 // the next three binds
//   faults.fail_if(Call::bind, EACCES, [](const CallDetails& call) { return call.port() < 1024; });
//   faults.answer_netlink({NetlinkReply::failure(EINTR), NetlinkReply::kernel()});
//
// Rules are tried in the order they were added, and speak of internet sockets unless they say
// Target::netlink. One plan at a time. Rules are added while no other thread is inside berth; the
// calls themselves may come from any thread.

#include "src/base/system_calls.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace berth::test {

enum class Call : std::uint8_t {
    socket,
    bind,
    connect,
    getsockname,
    getsockopt,
    setsockopt,
    sendto,
    recv
};
constexpr std::size_t kCallCount = 8;

enum class Target : std::uint8_t { internet, netlink, any };

/// The arguments of a call, as far as it has them; the rest is 0.
struct CallDetails {
    Call call = Call::socket;
    int fd = -1;
    int domain = 0;                     // socket() only
    const sockaddr* address = nullptr;  // bind(), connect() and sendto()
    int level = 0;                      // getsockopt() and setsockopt()
    int option = 0;
    const void* value = nullptr;  // setsockopt() only
    socklen_t value_size = 0;

    /// The port of `address`, in host order; 0 without one.
    std::uint16_t port() const noexcept;
};

/// What recv() on a netlink socket answers.
class NetlinkReply {
public:
    /// The kernel's own answer.
    static NetlinkReply kernel();
    /// The kernel's own answer with `flags` added to each of its messages.
    static NetlinkReply kernel_with_flags(std::uint16_t flags);
    /// -1 and errno.
    static NetlinkReply failure(int error);
    /// These bytes. Each message's sequence number and port id become those of the last request.
    static NetlinkReply data(std::vector<std::byte> bytes);
    /// These bytes as they are.
    static NetlinkReply raw(std::vector<std::byte> bytes);
    /// A datagram of `full_size` bytes, of which the caller's buffer gets what fits.
    static NetlinkReply truncated(std::vector<std::byte> bytes, std::size_t full_size);

private:
    friend class FaultState;
    enum class Kind : std::uint8_t { kernel, failure, data, raw };

    Kind kind_ = Kind::kernel;
    std::uint16_t added_flags_ = 0;
    int error_ = 0;
    std::size_t full_size_ = 0;
    std::vector<std::byte> bytes_;
};

/// One netlink message with `payload`, padded to 4 bytes.
std::vector<std::byte> netlink_message(std::uint16_t type, std::uint16_t flags,
                                       std::span<const std::byte> payload);

/// After the last reply of a script: the kernel answers again, or the last one comes for ever.
enum class ScriptEnd : std::uint8_t { kernel, repeat_last };

class FaultState;

class FaultPlan {
public:
    static constexpr unsigned kAlways = ~0U;
    using Predicate = std::function<bool(const CallDetails&)>;

    FaultPlan();
    ~FaultPlan();
    FaultPlan(const FaultPlan&) = delete;
    FaultPlan& operator=(const FaultPlan&) = delete;

    /// The next `times` calls fail with `error`, without reaching the kernel.
    FaultPlan& fail(Call call, int error, unsigned times = kAlways,
                    Target target = Target::internet);
    /// The calls that `predicate` picks fail; it is called from the thread that makes the call.
    FaultPlan& fail_if(Call call, int error, Predicate predicate, unsigned times = kAlways);
    /// What recv() on netlink sockets answers, in this order; replaces an earlier script.
    FaultPlan& answer_netlink(std::vector<NetlinkReply> replies, ScriptEnd end = ScriptEnd::kernel);

    /// Calls so far, failed ones included; on internet sockets unless another target is named.
    std::size_t call_count(Call call, Target target = Target::internet) const noexcept;
    /// Calls that a rule has made fail.
    std::size_t failed_count(Call call) const noexcept;

private:
    std::unique_ptr<FaultState> state_;
    internal::ScopedSystemCalls scope_;
};

}  // namespace berth::test
