// SPDX-License-Identifier: Apache-2.0
#include "cli/values.h"

namespace berth::cli {

std::string one_of(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
        text += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
        text += names[i];
    }
    return text;
}

}  // namespace berth::cli
