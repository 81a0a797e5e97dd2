// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/exhaustion.h"

#include "bench/connect/connection_keeper.h"
#include "bench/harness/process.h"
#include "bench/harness/statistics.h"

namespace berth::bench {
namespace {

class ExhaustionRun {
public:
    ExhaustionRun(Connector& connector, const std::vector<Address>& destinations,
                  const ExhaustionLimits& limits)
        : connector_(connector),
          destinations_(destinations),
          limits_(limits),
          keeper_(limits.descriptor_limit) {}

    Result<Exhaustion> run() {
        start_ns_ = now_ns();
        while (!is_over()) {
            BERTH_TRY(connect_next());
        }
        if (result_.stopped_by == StoppedBy::exhaustion) {
            BERTH_TRY(measure_failing());
        }
        result_.peak_rss_kib = peak_rss_kib();
        return std::move(result_);
    }

private:
    std::uint64_t elapsed_ns() const { return now_ns() - start_ns_ - keeper_.overhead_ns(); }

    bool is_over() {
        // With several destinations one may be exhausted before the next.
        if (failures_in_a_row_ == destinations_.size() || has_failed_) {
            result_.stopped_by = has_failed_ ? StoppedBy::failure : StoppedBy::exhaustion;
            return true;
        }
        if (result_.calls.succeeded_ns.size() >= limits_.most_connections) {
            result_.stopped_by = StoppedBy::limit;
            return true;
        }
        result_.stopped_by = StoppedBy::time;
        return elapsed_ns() >= limits_.time_limit_ns;
    }

    Result<void> connect_next() {
        const Address& destination = destinations_[next_++ % destinations_.size()];
        Socket socket = BERTH_TRY(open_resetting_socket(destination.family()));
        const std::uint64_t call_start_ns = now_ns();
        const bool is_connected = connector_.connect(socket, destination);
        const std::uint64_t call_ns = now_ns() - call_start_ns;
        if (!is_connected) {
            note_failure(call_ns);
            socket.close();
            connector_.after_close();
            return {};
        }
        failures_in_a_row_ = 0;
        result_.calls.succeeded_ns.push_back(call_ns);
        connector_.after_keep();
        result_.total_ns = elapsed_ns();
        return keeper_.keep(socket.release());
    }

    void note_failure(std::uint64_t call_ns) {
        ++failures_in_a_row_;
        has_failed_ = has_failed_ || !connector_.is_exhausted();
        result_.calls.failed_ns.push_back(call_ns);
        if (result_.calls.first_failure.empty() || has_failed_) {
            result_.calls.first_failure = connector_.failure();
        }
    }

    Result<void> measure_failing() {
        const BatchLimits limits = {
            .least_count = 3, .most_count = 20, .time_limit_ns = 200'000'000};
        const std::uint64_t failing_start_ns = now_ns();
        const std::size_t before = result_.calls.failed_ns.size();
        while (
            !limits.is_over(result_.calls.failed_ns.size() - before, now_ns() - failing_start_ns) &&
            failures_in_a_row_ > 0 && !has_failed_) {
            BERTH_TRY(connect_next());
        }
        return {};
    }

    Connector& connector_;
    const std::vector<Address>& destinations_;
    const ExhaustionLimits& limits_;
    ConnectionKeeper keeper_;
    Exhaustion result_;
    std::uint64_t start_ns_ = 0;
    std::size_t next_ = 0;
    std::size_t failures_in_a_row_ = 0;
    bool has_failed_ = false;
};

}  // namespace

Result<Exhaustion> connect_until_exhaustion(Connector& connector,
                                            const std::vector<Address>& destinations,
                                            const ExhaustionLimits& limits) {
    return ExhaustionRun(connector, destinations, limits).run();
}

}  // namespace berth::bench
