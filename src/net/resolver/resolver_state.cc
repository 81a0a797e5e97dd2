// SPDX-License-Identifier: Apache-2.0
#include "src/net/resolver/resolver_state.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace berth::internal {
namespace {

// The longest name that fits a message, written with dots (RFC 1035).
constexpr std::size_t kLongestName = 254;

// "192.0.2.1", "2001:db8::1", "fe80::1%eth0"; nothing with a port, for that is no host.
std::optional<Address> numeric_address(const std::string& host) {
    const auto colon_count = std::ranges::count(host, ':');
    if (host.starts_with('[') || colon_count == 1) {
        return std::nullopt;
    }
    const Result<Address> address = Address::parse(host);
    return address ? std::optional(*address) : std::nullopt;
}

// "localhost", "x.localhost." (RFC 6761, section 6.3): no server is to be asked for them.
bool is_local_host(std::string_view host) noexcept {
    constexpr std::string_view kName = "localhost";
    host.remove_suffix(host.ends_with('.') ? 1 : 0);
    const std::string_view last_label = host.substr(host.rfind('.') + 1);
    return last_label.size() == kName.size() &&
           ::strncasecmp(last_label.data(), kName.data(), kName.size()) == 0;
}

bool is_wanted(Family family, AddressFamilies families) noexcept {
    return families == AddressFamilies::any ||
           (families == AddressFamilies::ipv4) == (family == Family::ipv4);
}

}  // namespace

Result<std::unique_ptr<ResolverState>> ResolverState::create(LoopState& loop,
                                                             const ResolverOptions& options) {
    AresConfig config = BERTH_TRY(AresConfig::read(options));
    return std::unique_ptr<ResolverState>(new ResolverState(loop, std::move(config), options));
}

ResolverState::~ResolverState() {
    for (const auto& lookup : lookups_) {
        lookup->let_go();
    }
    for (OperationList* list : {&queued_, &active_}) {
        while (!list->is_empty()) {
            loop_.end_wait(static_cast<WaitOperation&>(*list->front()), -ECANCELED);
        }
    }
}

void ResolverState::add_loopback(ResolveOperation& operation) const {
    std::array order = {Family::ipv6, Family::ipv4};
    if (order_ == AddressOrder::ipv4_first) {
        std::swap(order[0], order[1]);
    }
    for (const Family family : order) {
        if (is_wanted(family, operation.families_)) {
            operation.addresses.push_back(Address::loopback(family, operation.port_));
        }
    }
}

// Numeric addresses, this host without its hosts file, and what cannot be a name.
bool ResolverState::answer_at_once(ResolveOperation& operation) const {
    const std::string& host = operation.host_;
    const std::optional<Address> address = numeric_address(host);
    if (host.empty() || host.size() > kLongestName || host.contains('\0')) {
        operation.failure_ = Error(Errc::invalid_argument, "resolve", host, EINVAL,
                                   "a name has 1 to 254 characters, none of them NUL");
    } else if (address && is_wanted(address->family(), operation.families_)) {
        operation.addresses.push_back(address->with_port(operation.port_));
    } else if (address) {
        operation.failure_ = Error(Errc::name_not_found, "resolve", host, ENOENT,
                                   "it is an address of the other family");
    } else if (!uses_hosts_file_ && is_local_host(host)) {
        add_loopback(operation);
    } else {
        return false;
    }
    operation.result = operation.failure_ ? -operation.failure_->system_errno()
                                          : static_cast<int>(operation.addresses.size());
    return true;
}

Start ResolverState::finish(ResolveOperation& operation, int result) noexcept {
    if (operation.always_completes) {
        loop_.complete_later(operation, result);
        return Start::pending;
    }
    operation.result = result;
    return Start::done;
}

// Null when all are busy.
Result<Lookup*> ResolverState::idle_lookup() {
    if (!idle_.empty()) {
        Lookup* lookup = idle_.back();
        idle_.pop_back();
        return lookup;
    }
    if (lookups_.size() >= concurrency_) {
        return nullptr;
    }
    lookups_.push_back(BERTH_TRY(Lookup::open(*this, loop_, config_)));
    idle_.reserve(lookups_.size());
    return lookups_.back().get();
}

Start ResolverState::start(ResolveOperation& operation, Deadline deadline) {
    if (answer_at_once(operation)) {
        return finish(operation, operation.result);
    }
    const Result<Lookup*> lookup = idle_lookup();
    if (!lookup) {
        operation.failure_ = lookup.error();
        return finish(operation, -ENOMEM);
    }
    if (*lookup == nullptr) {
        loop_.start_wait(operation, queued_, deadline);
        return Start::pending;
    }
    (*lookup)->begin(operation);
    if ((*lookup)->has_answer()) {
        const int result = (*lookup)->deliver();
        idle_.push_back(*lookup);
        return finish(operation, result);
    }
    loop_.start_wait(operation, active_, deadline);
    return Start::pending;
}

void ResolverState::take_back(Lookup& lookup) noexcept {
    ResolveOperation* operation = lookup.operation();
    if (operation != nullptr && operation->stage == OperationStage::waiting) {
        const int result = lookup.deliver();
        loop_.end_wait(*operation, result);
    }
    // One that was cancelled a moment ago keeps that result.
    lookup.let_go();
    start_next(lookup);
}

// What is answered at once makes room for the next; c-ares is not on the stack.
void ResolverState::start_next(Lookup& lookup) noexcept {
    while (!queued_.is_empty()) {
        auto& operation = static_cast<ResolveOperation&>(*queued_.front());
        queued_.remove(operation);
        operation.list = &active_;
        active_.push_back(operation);
        lookup.begin(operation);
        if (!lookup.has_answer()) {
            return;
        }
        loop_.end_wait(operation, lookup.deliver());
    }
    idle_.push_back(&lookup);
}

}  // namespace berth::internal
