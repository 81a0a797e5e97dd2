// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/berth_jobs.h"

#include <berth/stream.h>

#include <memory>
#include <optional>
#include <vector>

namespace berth::bench {
namespace {

struct Outcome {
    std::optional<Error> failure;
};

/// One stream, read to its end.
class Reader final : private ReceiveLentOperation {
public:
    Reader(TransferJob& job, std::size_t number, Stream stream, Outcome& outcome)
        : ReceiveLentOperation(&Reader::received),
          job_(job),
          number_(number),
          stream_(std::move(stream)),
          outcome_(outcome) {
        always_completes = true;
    }

    void start() { stream_.receive(*this); }

private:
    static void received(Operation& operation) noexcept { static_cast<Reader&>(operation).take(); }
    void take() noexcept {
        if (data) {
            job_.received(number_, data.bytes());
            data.give_back();
            start();
            return;
        }
        if (data.is_error()) {
            outcome_.failure = data.error();
        }
        stream_.close();
    }

    TransferJob& job_;
    std::size_t number_;
    Stream stream_;
    Outcome& outcome_;
};

}  // namespace

Result<void> berth_transfer(TransferJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    Outcome outcome;
    std::vector<std::unique_ptr<Reader>> readers;
    job.start();
    for (std::size_t number = 0; number < job.sockets.size(); ++number) {
        Stream stream = BERTH_TRY(Stream::adopt(loop, Descriptor(job.sockets[number])));
        readers.push_back(std::make_unique<Reader>(job, number, std::move(stream), outcome));
        readers.back()->start();
    }
    BERTH_TRY(loop.run());
    return outcome.failure ? Result<void>(std::unexpected(*outcome.failure)) : Result<void>{};
}

}  // namespace berth::bench
