// SPDX-License-Identifier: Apache-2.0
#include <berth/ports.h>

#include "src/ports/lease_book.h"
#include "src/ports/table_state.h"

#include <algorithm>
#include <utility>

namespace berth {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kUdpRest{500};
constexpr milliseconds kTcpRest{60'000};  // TCP_TIMEWAIT_LEN of the kernel
constexpr milliseconds kLongestRest = std::chrono::hours(24);

std::unexpected<Error> refuse(const char* subject, const char* reason, const char* remedy) {
    return std::unexpected(
        Error(Errc::invalid_argument, "make port table", subject, 0, reason, remedy));
}

Result<internal::TableSetup> check(Protocol protocol, const TableOptions& options) {
    if (options.range && !options.range->is_valid()) {
        return refuse("range", "it is empty, inverted, or begins with port 0",
                      "give 1 <= first <= last <= 65535");
    }
    if (!std::ranges::all_of(options.excluded, &PortRange::is_valid)) {
        return refuse("excluded", "a range in it is inverted, or begins with port 0",
                      "give 1 <= first <= last <= 65535");
    }
    const milliseconds rest =
        options.rest_period.value_or(protocol == Protocol::udp ? kUdpRest : kTcpRest);
    if (rest < milliseconds(0) || rest > kLongestRest) {
        return refuse("rest_period", "it is outside what is accepted", "give 0 to 24 hours");
    }
    if (options.recheck_interval < milliseconds(0) || options.recheck_interval > kLongestRest) {
        return refuse("recheck_interval", "it is outside what is accepted", "give 0 to 24 hours");
    }
    return internal::TableSetup{protocol, static_cast<std::uint32_t>(rest.count()),
                                options.range.value_or(PortRange{}), options.honour_reserved};
}

}  // namespace

void Port::give_back() noexcept { table_->release(*this); }

void Port::let_destination_go() noexcept { destination_->unpin(); }

PortTable::PortTable(std::unique_ptr<internal::TableState> state) noexcept
    : state_(std::move(state)) {}
PortTable::PortTable(PortTable&&) noexcept = default;
PortTable& PortTable::operator=(PortTable&&) noexcept = default;
PortTable::~PortTable() = default;

Result<PortTable> PortTable::create(Protocol protocol, const TableOptions& options) {
    const auto setup = BERTH_TRY(check(protocol, options));
    auto memory = BERTH_TRY(internal::TableMemory::create_private(setup));
    return PortTable(BERTH_TRY(internal::TableState::make(std::move(memory), options)));
}

Result<PortTable> PortTable::create_shared(Protocol protocol, const TableOptions& options) {
    const auto setup = BERTH_TRY(check(protocol, options));
    auto memory = BERTH_TRY(internal::TableMemory::create_memfd(setup));
    return PortTable(BERTH_TRY(internal::TableState::make(std::move(memory), options)));
}

Result<PortTable> PortTable::open(const std::string& path, Protocol protocol,
                                  const TableOptions& options) {
    const auto setup = BERTH_TRY(check(protocol, options));
    auto memory = BERTH_TRY(internal::TableMemory::open_file(path, setup));
    return PortTable(BERTH_TRY(internal::TableState::make(std::move(memory), options)));
}

Result<PortTable> PortTable::attach(Descriptor descriptor, Protocol protocol,
                                    const TableOptions& options) {
    BERTH_TRY(check(protocol, options));
    auto memory = BERTH_TRY(internal::TableMemory::attach(std::move(descriptor), protocol));
    return PortTable(BERTH_TRY(internal::TableState::make(std::move(memory), options)));
}

Protocol PortTable::protocol() const noexcept { return state_->protocol(); }
PortRange PortTable::range() const noexcept { return state_->core().range(); }
int PortTable::descriptor() const noexcept { return state_->descriptor(); }

Result<Port> PortTable::take(TakeFamily family) { return state_->take(family); }

Result<Port> PortTable::bind(const Socket& socket, const Address& local,
                             const BindOptions& options) {
    return state_->bind(internal::SocketTraits::of(socket), local, options);
}

Result<Port> PortTable::bind(int fd, const Address& local, const BindOptions& options) {
    return state_->bind(BERTH_TRY(internal::read_socket_traits(fd)), local, options);
}

Result<Port> PortTable::connect(const Socket& socket, const Address& remote) {
    return state_->connect(internal::SocketTraits::of(socket), remote);
}

Result<Port> PortTable::connect(int fd, const Address& remote) {
    return state_->connect(BERTH_TRY(internal::read_socket_traits(fd)), remote);
}

Result<Lease> PortTable::lease(const LeaseOptions& options) { return state_->lease(options); }

Result<Port> PortTable::claim(std::uint16_t port, std::uint64_t token) {
    return state_->claim(port, token);
}

Result<std::chrono::nanoseconds> PortTable::renew(std::uint64_t token, milliseconds expires_in) {
    return internal::renew_lease(state_->core(), token, expires_in);
}

Result<void> PortTable::give_back(std::uint64_t token) {
    return internal::give_back_lease(state_->core(), token);
}

Result<ReconcileReport> PortTable::reconcile() { return state_->reconcile(); }
std::uint32_t PortTable::sweep() { return state_->sweep(); }
TableStatistics PortTable::statistics() const { return state_->statistics(); }

}  // namespace berth
