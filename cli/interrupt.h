// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace berth::cli {

/// From now on the first Ctrl-C (or SIGTERM) only sets a flag and interrupts blocking calls, so
/// that what was measured can still be printed; the second ends the process as usual.
void watch_interrupts();
bool was_interrupted() noexcept;

}  // namespace berth::cli
