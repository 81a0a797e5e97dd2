// SPDX-License-Identifier: Apache-2.0
#pragma once

// Names to addresses, on the loop: the hosts file, then the name servers, over UDP and, when an
// answer does not fit, TCP. Nothing is cached. Settings (servers, search domains, ndots) are those
// of /etc/resolv.conf when the resolver is made; after a change make a new one.
//
// Whoever can guess the port and the number of a query can forge its answer. Each lookup has
// sockets of its own, and with LoopOptions::udp_ports each of them an unguessable port that nobody
// had a moment ago; a lookup's questions about IPv4 and IPv6 share one.
//
// The hosts file is read anew, and waited for, with each lookup that is not numeric: on a slow disk
// do without it. Names are taken as they are; write an international one in its ASCII form.
//
// Loop thread only. A resolver goes before its loop; its operations are cancelled then.
//
// Source: RFC 1035, RFC 5452, RFC 6724; c-ares does the protocol.

#include <berth/address.h>
#include <berth/awaitable.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth {

namespace internal {
class Lookup;
class ResolverState;
}  // namespace internal

/// Which addresses are wanted.
enum class AddressFamilies : std::uint8_t { any, ipv4, ipv6 };

/// How the addresses of a name are ordered.
enum class AddressOrder : std::uint8_t {
    rfc6724,      ///< Best first, as this host would reach them; a short-lived socket for each.
    ipv4_first,   ///< The same, IPv4 before IPv6.
    ipv6_first,   ///< The same, IPv6 before IPv4.
    as_received,  ///< As the server gave them; no sockets.
};

struct ResolverOptions {
    /// Name servers, port 0 for 53. Default: those of /etc/resolv.conf.
    std::vector<Address> servers = {};
    /// Until a server is thought not to answer; twice as long in each further round.
    std::chrono::milliseconds timeout{2000};
    int tries = 3;  ///< Rounds through the servers, 1 to 100.
    AddressOrder order = AddressOrder::rfc6724;
    /// Appended to names with fewer dots than ndots. Default: those of /etc/resolv.conf.
    std::optional<std::vector<std::string>> search_domains = std::nullopt;
    bool uses_hosts_file = true;  ///< Without it "localhost" is the loopback addresses.
    /// Lookups that go on at the same time, 1 to 4096; the others wait for their turn. Each takes
    /// about 75 KiB, from its first use on, and one or two descriptors while it goes on.
    unsigned concurrency = 64;
};

/// Looks one name up. `addresses` is the answer, count() their number.
class BERTH_API ResolveOperation : public WaitOperation {
public:
    explicit ResolveOperation(Completion completion) noexcept
        : WaitOperation(&ResolveOperation::finish), finished_(completion) {}
    ~ResolveOperation();

    std::vector<Address> addresses;

    /// As Operation::error(), and names what was looked up.
    Error error() const noexcept;

private:
    friend class internal::Lookup;
    friend class internal::ResolverState;
    friend class Resolver;

    static void finish(Operation& operation) noexcept;

    Completion finished_;
    internal::Lookup* lookup_ = nullptr;  // carries it out
    std::string host_;
    std::optional<Error> failure_;
    std::uint16_t port_ = 0;
    AddressFamilies families_ = AddressFamilies::any;
};

class ResolveAwaiter;

class BERTH_API Resolver {
public:
    Resolver() noexcept;
    /// **Errors:** invalid_argument (options; a server with a scope), out_of_memory.
    static Result<Resolver> create(Loop& loop, const ResolverOptions& options = {});

    Resolver(Resolver&&) noexcept;
    Resolver& operator=(Resolver&&) noexcept;
    /// Cancels what is pending.
    ~Resolver();

    /// The addresses of `host`, with `port`. A numeric address is answered at once.
    /// **Errors:** name_not_found (no such name, or none with an address of these families),
    /// name_server_failed (it may exist), timed_out (the servers', or the deadline), cancelled,
    /// ports_exhausted, descriptors_exhausted, out_of_memory, invalid_argument (no name).
    Start resolve(ResolveOperation& operation, std::string_view host, std::uint16_t port = 0,
                  AddressFamilies families = AddressFamilies::any, Deadline deadline = {});
    /// `Result<std::vector<Address>> addresses = co_await resolver.resolve("example.org", 443);`
    ResolveAwaiter resolve(std::string_view host, std::uint16_t port = 0,
                           AddressFamilies families = AddressFamilies::any, Deadline deadline = {});

private:
    explicit Resolver(std::unique_ptr<internal::ResolverState> state) noexcept;

    std::unique_ptr<internal::ResolverState> state_;
};

class BERTH_API ResolveAwaiter final : public Awaiter<ResolveOperation> {
public:
    ResolveAwaiter(Resolver& resolver, std::string_view host, std::uint16_t port,
                   AddressFamilies families, Deadline deadline)
        : Awaiter(nullptr, {}, deadline),
          resolver_(resolver),
          host_(host),
          port_(port),
          families_(families) {}

    bool await_ready() {
        return is_cancelled_before() ||
               resolver_.resolve(*this, host_, port_, families_, deadline()) == Start::done;
    }
    Result<std::vector<Address>> await_resume() {
        if (has_failed()) {
            return std::unexpected(error());
        }
        return std::move(addresses);
    }

private:
    Resolver& resolver_;
    std::string host_;
    std::uint16_t port_;
    AddressFamilies families_;
};

inline ResolveAwaiter Resolver::resolve(std::string_view host, std::uint16_t port,
                                        AddressFamilies families, Deadline deadline) {
    return {*this, host, port, families, deadline};
}

}  // namespace berth
