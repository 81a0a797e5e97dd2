// SPDX-License-Identifier: Apache-2.0
#pragma once

// How long to wait for an answer, from how long answers take and how much that varies: as TCP finds
// its retransmission timeout (RFC 6298), but bounded for scans of hosts that are near or far.

#include <algorithm>
#include <chrono>

class AnswerTime {
public:
    using Duration = std::chrono::nanoseconds;

    void note(Duration taken) {
        const Duration error = std::chrono::abs(mean_ - taken);
        deviation_ = is_known_ ? (3 * deviation_ + error) / 4 : taken / 2;
        mean_ = is_known_ ? (7 * mean_ + taken) / 8 : taken;
        is_known_ = true;
    }

    Duration timeout() const {
        using namespace std::chrono_literals;
        return is_known_ ? std::clamp<Duration>(mean_ + 4 * deviation_, 100ms, 3s) : 1s;
    }

private:
    bool is_known_ = false;
    Duration mean_{0};
    Duration deviation_{0};
};
