// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/kernel.h"

#include <cstdio>
#include <cstdlib>

namespace berth::internal::simulated {

void Kernel::give_up(const std::string& message) const {
    std::fprintf(stderr, "berth simulation: %s\nthe last calls:\n%s", message.c_str(),
                 trace.text().c_str());
    std::abort();
}

}  // namespace berth::internal::simulated
