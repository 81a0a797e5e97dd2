// SPDX-License-Identifier: Apache-2.0
#include "src/engine/engine.h"

namespace berth::internal {

EngineResult make_simulated_engine(ReadyList&) {
    return std::unexpected(Error(Errc::unsupported, "open", "simulated engine", 0,
                                 "no simulation is going on", "make a Simulation first"));
}

}  // namespace berth::internal
