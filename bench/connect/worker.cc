// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/worker.h"

#include "bench/harness/environment.h"
#include "bench/harness/statistics.h"

namespace berth::bench {
namespace {

constexpr BatchLimits kConnectLimits = {
    .least_count = 5, .most_count = 100, .time_limit_ns = 20'000'000};

}  // namespace

Worker::Worker(WorkerSetup setup, Destinations destinations)
    : setup_(std::move(setup)),
      destinations_(std::move(destinations)),
      filler_(std::make_unique<ConnectionFiller>(setup_.environment, setup_.order,
                                                 destinations_.addresses(), setup_.seed)),
      connectors_(setup_.allocators.size()) {}

Result<Worker> Worker::start(WorkerSetup setup) {
    BERTH_TRY(enter_fresh_namespace(setup.environment));
    Destinations destinations =
        BERTH_TRY(Destinations::start(setup.destination_count, setup.family, setup.environment));
    return Worker(std::move(setup), std::move(destinations));
}

Result<void> Worker::fill_to(unsigned port_count) {
    for (std::unique_ptr<Connector>& connector : connectors_) {
        connector.reset();
    }
    table_.reset();
    return filler_->fill_to(port_count);
}

Result<Connector*> Worker::connector(std::size_t allocator_index) {
    const std::string& name = setup_.allocators[allocator_index];
    if (name == "berth" && table_ == nullptr) {
        table_ = std::make_unique<PortTable>(BERTH_TRY(PortTable::create(Protocol::tcp)));
    }
    std::unique_ptr<Connector>& connector = connectors_[allocator_index];
    if (connector == nullptr) {
        connector =
            make_connector(name, {Address::loopback(setup_.family), setup_.environment.range,
                                  table_.get(), filler_->free_ports()});
    }
    return connector.get();
}

Result<Batch> Worker::measure(std::size_t allocator_index) {
    Batch batch;
    Connector* const connector = BERTH_TRY(this->connector(allocator_index));
    if (connector == nullptr) {
        return batch;
    }
    const std::vector<Address>& destinations = destinations_.addresses();
    const std::uint64_t batch_start_ns = now_ns();
    while (!kConnectLimits.is_over(batch.size(), now_ns() - batch_start_ns)) {
        const Address& destination = destinations[batch.size() % destinations.size()];
        Socket socket = BERTH_TRY(open_resetting_socket(setup_.family));
        const std::uint64_t start_ns = now_ns();
        const bool is_connected = connector->connect(socket, destination);
        const std::uint64_t elapsed_ns = now_ns() - start_ns;
        (is_connected ? batch.succeeded_ns : batch.failed_ns).push_back(elapsed_ns);
        if (!is_connected && batch.first_failure.empty()) {
            batch.first_failure = connector->failure();
        }
        socket.close();
        connector->after_close();
    }
    return batch;
}

Result<Exhaustion> Worker::exhaust() {
    Connector* const connector = BERTH_TRY(this->connector(0));
    const Environment& environment = setup_.environment;
    const bool is_host = environment.isolation == Isolation::host;
    const std::uint64_t most =
        std::uint64_t{usable_port_count(environment)} * destinations_.addresses().size();
    const ExhaustionLimits limits = {
        .time_limit_ns = static_cast<std::uint64_t>(setup_.seconds * 1e9),
        .most_connections = is_host ? most : UINT64_MAX,
        .descriptor_limit = environment.descriptor_limit - kSpareDescriptors};
    return connect_until_exhaustion(*connector, destinations_.addresses(), limits);
}

}  // namespace berth::bench
