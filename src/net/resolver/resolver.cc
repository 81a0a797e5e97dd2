// SPDX-License-Identifier: Apache-2.0
#include <berth/resolver.h>

#include "src/net/resolver/resolver_state.h"

#include <cerrno>

namespace berth {

ResolveOperation::~ResolveOperation() {
    end();
    if (lookup_ != nullptr) {
        lookup_->abandon();
    }
}

Error ResolveOperation::error() const noexcept {
    if (failure_) {
        return *failure_;
    }
    return Error::from_errno(system_errno(), "resolve", host_);
}

// Whoever was cancelled, or came to his deadline, is still known to his lookup.
void ResolveOperation::finish(Operation& operation) noexcept {
    auto& self = static_cast<ResolveOperation&>(operation);
    if (self.lookup_ != nullptr) {
        self.lookup_->abandon();
    }
    self.finished_(self);
}

Resolver::Resolver() noexcept = default;
Resolver::Resolver(std::unique_ptr<internal::ResolverState> state) noexcept
    : state_(std::move(state)) {}
Resolver::Resolver(Resolver&&) noexcept = default;
Resolver& Resolver::operator=(Resolver&&) noexcept = default;
Resolver::~Resolver() = default;

Result<Resolver> Resolver::create(Loop& loop, const ResolverOptions& options) {
    return Resolver(BERTH_TRY(internal::ResolverState::create(loop.state(), options)));
}

Start Resolver::resolve(ResolveOperation& operation, std::string_view host, std::uint16_t port,
                        AddressFamilies families, Deadline deadline) {
    operation.host_ = host;
    operation.failure_.reset();
    operation.addresses.clear();
    if (state_ == nullptr) {
        operation.result = -EBADF;
        return Start::done;
    }
    operation.port_ = port;
    operation.families_ = families;
    return state_->start(operation, deadline);
}

}  // namespace berth
