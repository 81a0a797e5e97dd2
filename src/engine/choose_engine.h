// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/engine.h"

#include <optional>
#include <string>

namespace berth::internal {

struct EngineChoice {
    EngineResult (*make)(ReadyList& ready) = nullptr;
    std::string note;  // why it is not a better one; empty when it is the best or was named
};

/// The engine that was asked for, else the one that BERTH_ENGINE names, else the best that works
/// here. **Errors:** invalid_argument (BERTH_ENGINE), and what the engine asked for answers.
Result<EngineChoice> choose_engine(std::optional<EngineKind> wanted);

/// Makes the next choose_engine() look again for the best. For tests.
void forget_best_engine();

}  // namespace berth::internal
