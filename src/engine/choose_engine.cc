// SPDX-License-Identifier: Apache-2.0
#include "src/engine/choose_engine.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace berth {
namespace {

constexpr std::array<std::string_view, 5> kEngineNames = {"select", "poll", "epoll", "io_uring",
                                                          "simulated"};

}  // namespace

std::string_view to_string(EngineKind kind) noexcept {
    return kEngineNames[static_cast<std::size_t>(kind)];
}

Result<EngineKind> parse_engine_kind(std::string_view name) {
    const auto found = std::ranges::find(kEngineNames, name);
    if (found == kEngineNames.end()) {
        return std::unexpected(Error(Errc::invalid_argument, "choose", name, 0,
                                     "there is no such engine",
                                     "use select, poll, epoll, io_uring or simulated"));
    }
    return static_cast<EngineKind>(found - kEngineNames.begin());
}

namespace internal {
namespace {

using Make = EngineResult (*)(ReadyList&);

Make maker_of(EngineKind kind) noexcept {
    switch (kind) {
        case EngineKind::select:
            return make_select_engine;
        case EngineKind::poll:
            return make_poll_engine;
        case EngineKind::epoll:
            return make_epoll_engine;
        case EngineKind::io_uring:
            return make_io_uring_engine;
        case EngineKind::simulated:
            return make_simulated_engine;
    }
    return make_epoll_engine;
}

std::optional<EngineKind> from_environment(Result<void>& outcome) {
    const char* name = std::getenv("BERTH_ENGINE");
    if (name == nullptr || *name == '\0') {
        return std::nullopt;
    }
    const Result<EngineKind> kind = parse_engine_kind(name);
    if (!kind) {
        outcome = std::unexpected(Error(Errc::invalid_argument, "choose", name, 0,
                                        "BERTH_ENGINE names no engine",
                                        "use select, poll, epoll, io_uring or simulated"));
        return std::nullopt;
    }
    return *kind;
}

// The first that works; what the better ones answered becomes the note.
EngineChoice find_best_engine() {
    EngineChoice choice;
    for (const EngineKind kind : {EngineKind::io_uring, EngineKind::epoll, EngineKind::poll}) {
        ReadyList unused;
        const EngineResult engine = maker_of(kind)(unused);
        if (engine) {
            choice.make = maker_of(kind);
            return choice;
        }
        choice.note += choice.note.empty() ? "" : "; ";
        choice.note += engine.error().message();
    }
    choice.make = make_select_engine;
    return choice;
}

// What the kernel allows does not change while the process runs (a seccomp filter may only become
// stricter, and is then met as an error).
struct BestEngine {
    std::mutex mutex;
    std::optional<EngineChoice> choice;  // protected by `mutex`
};

BestEngine& best_engine() {
    static BestEngine best;
    return best;
}

}  // namespace

Result<EngineChoice> choose_engine(std::optional<EngineKind> wanted) {
    Result<void> outcome;
    if (!wanted) {
        wanted = from_environment(outcome);
    }
    BERTH_TRY(outcome);
    if (wanted) {
        return EngineChoice{maker_of(*wanted), {}};
    }
    BestEngine& best = best_engine();
    const std::lock_guard lock(best.mutex);
    if (!best.choice) {
        best.choice = find_best_engine();
    }
    return *best.choice;
}

void forget_best_engine() {
    const std::lock_guard lock(best_engine().mutex);
    best_engine().choice.reset();
}

}  // namespace internal
}  // namespace berth
