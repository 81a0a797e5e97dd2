// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the rows say, in sentences: what this host's kernel does, and what berth does instead.

#include "bench/harness/row.h"

#include <string>
#include <vector>

namespace berth::cli {

/// One sentence each about bind, about the harm to a program beside, about connecting or, when that
/// was not measured, about the choice alone, and about waiting for many sockets. What was not
/// measured has no sentence.
std::vector<std::string> summarize(const std::vector<bench::Row>& rows);

std::string bind_sentence(const std::vector<bench::Row>& rows);
std::string harm_sentence(const std::vector<bench::Row>& rows);
std::string connect_sentence(const std::vector<bench::Row>& rows);
std::string waiting_sentence(const std::vector<bench::Row>& rows);
std::string table_sentence(const std::vector<bench::Row>& rows);

}  // namespace berth::cli
