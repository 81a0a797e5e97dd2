// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/berth_jobs.h"

#include <berth/stream.h>

#include <memory>
#include <vector>

namespace berth::bench {
namespace {

struct Churn {
    ChurnJob& job;
    Loop& loop;
    unsigned started_count = 0;
};

/// One connection after the other.
class Connector final : private ConnectOperation {
public:
    explicit Connector(Churn& churn) : ConnectOperation(&Connector::settled), churn_(churn) {
        always_completes = true;
    }

    void start_next() noexcept {
        while (churn_.started_count < churn_.job.connection_count) {
            ++churn_.started_count;
            Result<Stream> stream =
                Stream::open(churn_.loop, churn_.job.destination, {.no_delay = false});
            if (stream) {
                stream_ = std::move(*stream);
                ChurnJob::reset_on_close(stream_.fd());
                stream_.connect(*this);
                return;
            }
            churn_.job.failed(stream.error().system_errno());
        }
    }

private:
    static void settled(Operation& operation) noexcept {
        auto& self = static_cast<Connector&>(operation);
        if (self.has_failed()) {
            self.churn_.job.failed(self.system_errno());
        } else {
            self.churn_.job.connected();
        }
        self.stream_.close();
        self.start_next();
    }

    Churn& churn_;
    Stream stream_;
};

}  // namespace

Result<void> berth_churn(ChurnJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine, .tcp_ports = job.ports}));
    Churn churn{job, loop};
    std::vector<std::unique_ptr<Connector>> connectors;
    job.start();
    for (unsigned i = 0; i < job.parallel_count; ++i) {
        connectors.push_back(std::make_unique<Connector>(churn));
        connectors.back()->start_next();
    }
    return loop.run();
}

}  // namespace berth::bench
