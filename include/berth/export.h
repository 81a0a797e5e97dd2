// SPDX-License-Identifier: Apache-2.0
#pragma once

// Marks what a shared libberth exports; everything else has hidden visibility.
#define BERTH_API __attribute__((visibility("default")))
