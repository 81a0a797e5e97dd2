// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace berth::internal::simulated {
namespace {

std::string fault_text(const Fault& fault) {
    std::string text;
    if (fault.error != 0) {
        text += std::string(", made to answer ") + ::strerrorname_np(fault.error);
    }
    if (fault.connection_error != 0) {
        text += std::string(", connection broken by ") + ::strerrorname_np(fault.connection_error);
    }
    if (fault.is_cut()) {
        text += ", cut to " + std::to_string(fault.byte_limit);
    }
    if (fault.delay.count() > 0) {
        text += ", took " + std::to_string(fault.delay.count()) + " ns";
    }
    if (fault.lateness.count() > 0) {
        text += ", delivered " + std::to_string(fault.lateness.count()) + " ns late";
    }
    if (fault.is_spurious_readiness) {
        text += ", spurious readiness";
    }
    return text;
}

std::string result_text(std::int64_t result) {
    if (result >= 0) {
        return std::to_string(result);
    }
    const char* name = ::strerrorname_np(static_cast<int>(-result));
    return name == nullptr ? std::to_string(result) : name;
}

std::string line(const TraceEntry& entry) {
    std::array<char, 128> text{};
    std::snprintf(text.data(), text.size(),
                  "#%llu %.9f %s(%d, %zu) = ", static_cast<unsigned long long>(entry.number),
                  std::chrono::duration<double>(entry.time).count(),
                  std::string(to_string(entry.kind)).c_str(), entry.fd, entry.size);
    return text.data() + result_text(entry.result) + fault_text(entry.fault) + '\n';
}

}  // namespace

std::string Trace::text() const {
    std::string text;
    const std::uint64_t kept = std::min<std::uint64_t>(count_, entries_.size());
    for (std::uint64_t number = count_ - kept; number < count_; ++number) {
        text += line(entries_[number % entries_.size()]);
    }
    return text;
}

}  // namespace berth::internal::simulated
