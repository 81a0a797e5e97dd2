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
      connectors_(setup_.allocators.size()),
      guests_(setup_.allocators.size()) {}

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
    for (std::optional<Guest>& guest : guests_) {
        guest.reset();
    }
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

Result<Guest*> Worker::guest(std::size_t allocator_index) {
    std::optional<Guest>& guest = guests_[allocator_index];
    if (!guest) {
        const ExhaustionLimits most = limits();
        std::vector<std::string> words = {"connect", std::to_string(most.time_limit_ns),
                                          std::to_string(most.most_connections),
                                          std::to_string(most.descriptor_limit)};
        for (const Address& address : destinations_.addresses()) {
            words.push_back(address.to_string());
        }
        guest.emplace(BERTH_TRY(Guest::start(setup_.allocators[allocator_index], words)));
    }
    return &*guest;
}

ExhaustionLimits Worker::limits() const {
    const Environment& environment = setup_.environment;
    const bool is_host = environment.isolation == Isolation::host;
    const std::uint64_t most =
        std::uint64_t{usable_port_count(environment)} * destinations_.addresses().size();
    return {.time_limit_ns = static_cast<std::uint64_t>(setup_.seconds * 1e9),
            .most_connections = is_host ? most : UINT64_MAX,
            .descriptor_limit = environment.descriptor_limit - kSpareDescriptors};
}

Result<Batch> Worker::measure(std::size_t allocator_index) {
    if (is_guest(setup_.allocators[allocator_index])) {
        Guest* const started = BERTH_TRY(guest(allocator_index));
        return started->measure();
    }
    Connector* const connector = BERTH_TRY(this->connector(allocator_index));
    return connector != nullptr ? measure_connects(*connector, destinations_.addresses())
                                : Result<Batch>(Batch{});
}

Result<Batch> measure_connects(Connector& connector, const std::vector<Address>& destinations) {
    Batch batch;
    const std::uint64_t batch_start_ns = now_ns();
    while (!kConnectLimits.is_over(batch.size(), now_ns() - batch_start_ns)) {
        const Address& destination = destinations[batch.size() % destinations.size()];
        Socket socket = BERTH_TRY(open_resetting_socket(destination.family()));
        const std::uint64_t start_ns = now_ns();
        const bool is_connected = connector.connect(socket, destination);
        const std::uint64_t elapsed_ns = now_ns() - start_ns;
        (is_connected ? batch.succeeded_ns : batch.failed_ns).push_back(elapsed_ns);
        if (!is_connected && batch.first_failure.empty()) {
            batch.first_failure = connector.failure();
        }
        socket.close();
        connector.after_close();
    }
    return batch;
}

Result<Exhaustion> Worker::exhaust() {
    if (!is_guest(setup_.allocators[0])) {
        Connector* const connector = BERTH_TRY(this->connector(0));
        return connect_until_exhaustion(*connector, destinations_.addresses(), limits());
    }
    Guest* const started = BERTH_TRY(guest(0));
    GuestAnswer answer = BERTH_TRY(started->ask(GuestQuestion::exhaust));
    answer.values.resize(3);
    return Exhaustion{.total_ns = answer.values[0],
                      .peak_rss_kib = static_cast<std::int64_t>(answer.values[1]),
                      .stopped_by = static_cast<StoppedBy>(answer.values[2]),
                      .calls = std::move(answer.batch)};
}

int run_connect_guest(const std::vector<std::string>& words) {
    constexpr std::size_t kLimitCount = 3;
    std::vector<Address> destinations;
    for (std::size_t i = kLimitCount; i < words.size(); ++i) {
        if (const auto address = Address::parse(words[i])) destinations.push_back(*address);
    }
    if (destinations.empty()) {
        return 2;
    }
    const ExhaustionLimits limits = {.time_limit_ns = std::stoull(words[0]),
                                     .most_connections = std::stoull(words[1]),
                                     .descriptor_limit = std::stoull(words[2])};
    const ConnectScene scene = {
        .local = Address::loopback(destinations[0].family()), .range = {}, .free_ports = {}};
    const auto connector = make_connector("kernel", scene);
    return answer_questions([&](GuestQuestion question) -> Result<GuestAnswer> {
        if (question == GuestQuestion::measure) {
            return GuestAnswer{BERTH_TRY(measure_connects(*connector, destinations)), {}};
        }
        Exhaustion run = BERTH_TRY(connect_until_exhaustion(*connector, destinations, limits));
        return GuestAnswer{std::move(run.calls),
                           {run.total_ns, static_cast<std::uint64_t>(run.peak_rss_kib),
                            static_cast<std::uint64_t>(run.stopped_by)}};
    });
}

}  // namespace berth::bench
