// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Before the definition of a function that stands in front of libc's of the same name. It has C
/// linkage, and so is the global function whatever namespace it is written in.
#define BERTH_INTERPOSED extern "C" __attribute__((visibility("default")))
