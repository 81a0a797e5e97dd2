// SPDX-License-Identifier: Apache-2.0
#include "src/net/resolver/lookup.h"

#include "src/net/resolver/resolver_state.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

namespace berth::internal {
namespace {

int family_of(AddressFamilies families) noexcept {
    switch (families) {
        case AddressFamilies::ipv4:
            return AF_INET;
        case AddressFamilies::ipv6:
            return AF_INET6;
        case AddressFamilies::any:
            break;
    }
    return AF_UNSPEC;
}

Errc code_of(int status) noexcept {
    switch (status) {
        case ARES_ENODATA:
        case ARES_ENOTFOUND:
        case ARES_EBADNAME:
            return Errc::name_not_found;
        case ARES_ETIMEOUT:
            return Errc::timed_out;
        case ARES_ECANCELLED:
            return Errc::cancelled;
        case ARES_ENOMEM:
            return Errc::out_of_memory;
        default:
            return Errc::name_server_failed;
    }
}

const char* reason_of(int status) noexcept {
    switch (status) {
        case ARES_ENOTFOUND:
            return nullptr;
        case ARES_ENODATA:
            return "it has no address of the family asked for";
        case ARES_EBADNAME:
            return "it cannot be a name";
        case ARES_ETIMEOUT:
            return "no name server has answered";
        case ARES_ECONNREFUSED:
            return "no name server could be reached";
        case ARES_EREFUSED:
            return "the name server refuses to answer";
        default:
            return ares_strerror(status);
    }
}

// What an operation says of an error that has no errno.
int errno_of(const Error& error) noexcept {
    if (error.system_errno() != 0) {
        return error.system_errno();
    }
    switch (error.code()) {
        case Errc::name_not_found:
            return ENOENT;
        case Errc::timed_out:
            return ETIMEDOUT;
        case Errc::cancelled:
            return ECANCELED;
        case Errc::out_of_memory:
            return ENOMEM;
        case Errc::ports_exhausted:
            return EADDRNOTAVAIL;
        default:
            return EIO;
    }
}

}  // namespace

Result<std::unique_ptr<Lookup>> Lookup::open(ResolverState& owner, LoopState& loop,
                                             const AresConfig& config) {
    std::unique_ptr<Lookup> lookup(new Lookup(owner, loop));
    lookup->channel_ = BERTH_TRY(config.open_channel(&QuerySockets::on_state, &lookup->sockets_));
    lookup->sockets_.serve(lookup->channel_.get());
    return lookup;
}

// The channel goes first, for it closes its sockets.
Lookup::~Lookup() { channel_.reset(); }

void Lookup::begin(ResolveOperation& operation) {
    operation_ = &operation;
    operation.lookup_ = this;
    has_answer_ = false;
    addresses_.clear();
    failure_.reset();
    sockets_.forget_failure();
    ares_addrinfo_hints hints{};
    hints.ai_family = family_of(operation.families_);
    hints.ai_flags = ARES_AI_NUMERICSERV;
    if (owner_.order() == AddressOrder::as_received) {
        hints.ai_flags |= ARES_AI_NOSORT;
    }
    const std::string service = std::to_string(operation.port_);
    ares_getaddrinfo(channel_.get(), operation.host_.c_str(),
                     operation.port_ != 0 ? service.c_str() : nullptr, &hints, &Lookup::on_answer,
                     this);
    sockets_.free_closed();
    if (!has_answer_) {
        arm_timeout();
    }
}

int Lookup::deliver() noexcept {
    ResolveOperation& operation = *let_go();
    if (failure_) {
        operation.failure_ = failure_;
        return -errno_of(*failure_);
    }
    operation.addresses = std::move(addresses_);
    return static_cast<int>(operation.addresses.size());
}

ResolveOperation* Lookup::let_go() noexcept {
    if (operation_ != nullptr) {
        operation_->lookup_ = nullptr;
    }
    return std::exchange(operation_, nullptr);
}

void Lookup::abandon() noexcept {
    let_go();
    ares_cancel(channel_.get());
    settle();
}

void Lookup::on_socket_ready(int read_fd, int write_fd) noexcept {
    ares_process_fd(channel_.get(), read_fd, write_fd);
    settle();
}

void Lookup::on_timeout(Operation& operation) noexcept {
    if (!operation.has_failed()) {
        static_cast<Timeout&>(operation).lookup.on_socket_ready(ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    }
}

void Lookup::on_answer(void* self, int status, int, ares_addrinfo* answer) noexcept {
    auto& lookup = *static_cast<Lookup*>(self);
    lookup.has_answer_ = true;
    if (status == ARES_SUCCESS && answer != nullptr) {
        lookup.take(*answer);
    } else if (lookup.operation_ != nullptr) {
        lookup.failure_ = lookup.error_of(status);
    }
    ares_freeaddrinfo(answer);
}

void Lookup::take(const ares_addrinfo& answer) {
    for (const ares_addrinfo_node* node = answer.nodes; node != nullptr; node = node->ai_next) {
        if (const auto address = Address::from(node->ai_addr, node->ai_addrlen)) {
            addresses_.push_back(*address);
        }
    }
    if (owner_.order() == AddressOrder::ipv4_first) {
        put_first(Family::ipv4);
    } else if (owner_.order() == AddressOrder::ipv6_first) {
        put_first(Family::ipv6);
    }
}

// In other respects the order stays.
void Lookup::put_first(Family family) {
    const auto is_first = [family](const Address& one) { return one.family() == family; };
    std::vector<Address> ordered;
    ordered.reserve(addresses_.size());
    std::ranges::copy_if(addresses_, std::back_inserter(ordered), is_first);
    std::ranges::copy_if(addresses_, std::back_inserter(ordered), std::not_fn(is_first));
    addresses_ = std::move(ordered);
}

Error Lookup::error_of(int status) const noexcept {
    const Errc code = code_of(status);
    // Without a socket no server was asked: that is what the caller has to know.
    if (code == Errc::name_server_failed && sockets_.failure()) {
        return *sockets_.failure();
    }
    return {code, "resolve", operation_->host_, 0, reason_of(status)};
}

void Lookup::arm_timeout() noexcept {
    timeval left{};
    if (ares_timeout(channel_.get(), nullptr, &left) != nullptr) {
        timeout_.restart(&loop_, within(std::chrono::seconds(left.tv_sec) +
                                        std::chrono::microseconds(left.tv_usec)));
    }
}

// After each visit to c-ares.
void Lookup::settle() noexcept {
    sockets_.free_closed();
    if (!has_answer_) {
        arm_timeout();
        return;
    }
    timeout_.stop();
    owner_.take_back(*this);
}

}  // namespace berth::internal
