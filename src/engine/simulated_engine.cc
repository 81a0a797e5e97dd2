// SPDX-License-Identifier: Apache-2.0

// The epoll engine over a simulated kernel. There is one thread, so a wake-up is a flag.

#include "src/engine/epoll_engine.h"
#include "src/engine/simulation/simulation.h"

#include <cerrno>

namespace berth::internal {
namespace {

class SimulatedEngine final : public EpollEngine {
public:
    SimulatedEngine(ReadyList& ready, Descriptor epoll) noexcept
        : EpollEngine(ready, std::move(epoll), Wakeup()) {}

    EngineKind kind() const noexcept override { return EngineKind::simulated; }
    int wait(std::uint64_t deadline_ns) noexcept override {
        return EpollEngine::wait(std::exchange(is_woken_, false) ? 0 : deadline_ns);
    }
    void wake() noexcept override { is_woken_ = true; }
    Result<int> descriptor() override {
        return std::unexpected(Error(Errc::unsupported, "embed", "simulated engine", 0,
                                     "nothing outside of a simulation can wait for it"));
    }

private:
    bool is_woken_ = false;
};

}  // namespace

EngineResult make_simulated_engine(ReadyList& ready) {
    Simulation* simulation = Simulation::active();
    if (simulation == nullptr) {
        return std::unexpected(Error(Errc::unsupported, "open", "simulated engine", 0,
                                     "no simulation is going on", "make a Simulation first"));
    }
    Descriptor epoll(simulation->make_epoll());
    if (!epoll.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", "simulated epoll"));
    }
    return std::make_unique<SimulatedEngine>(ready, std::move(epoll));
}

}  // namespace berth::internal
