// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_request.h"

#include "bench/programs/program.h"
#include "cli/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace berth::cli {
namespace {

constexpr std::string_view kCommonOptions[] = {"seed", "format", "namespace"};

std::string command_of(const BenchEntry* bench) {
    return bench != nullptr ? fmt::format("berth bench {}", bench->name) : "berth bench";
}

std::unexpected<UsageError> refuse(const BenchEntry* bench, const std::string& why) {
    return std::unexpected(UsageError{fmt::format("{}: {}", command_of(bench), why)});
}

std::vector<std::string> with_dashes(const BenchEntry& bench) {
    std::vector<std::string> names;
    for (const BenchOption& option : bench_options()) {
        if (knows_option(bench, option.name)) {
            names.push_back(fmt::format("--{}", option.name));
        }
    }
    return names;
}

std::vector<std::string> bench_names() {
    std::vector<std::string> names;
    for (const BenchEntry& entry : bench_catalogue()) {
        names.emplace_back(entry.name);
    }
    return names;
}

/// Those of one bench, or of all.
std::vector<std::string> allocator_names(const BenchEntry* bench) {
    std::vector<std::string> names;
    for (const BenchEntry& entry : bench_catalogue()) {
        if (bench != nullptr && bench != &entry) {
            continue;
        }
        for (const std::string_view name : entry.allocators()) {
            if (std::ranges::find(names, name) == names.end()) {
                names.emplace_back(name);
            }
        }
    }
    return names;
}

std::string refused_value(std::string_view option, const std::string& value,
                          std::string_view accepted) {
    const std::string named = value.empty() ? "an empty value" : fmt::format("'{}'", value);
    return fmt::format("--{} does not accept {}; accepted: {}", option, named, accepted);
}

std::expected<void, UsageError> check_allocators(const BenchRequest& request) {
    const std::vector<std::string> known = allocator_names(request.bench);
    for (const std::string& allocator : request.selection.allocators) {
        if (std::ranges::find(known, allocator) == known.end()) {
            return refuse(request.bench, refused_value("allocator", allocator, one_of(known)));
        }
    }
    return {};
}

std::expected<void, UsageError> check_protocols(const BenchRequest& request) {
    if (request.bench == nullptr) {
        return {};
    }
    for (const Protocol protocol : request.selection.protocols) {
        if (std::ranges::find(request.bench->protocols, protocol) ==
            request.bench->protocols.end()) {
            return refuse(request.bench,
                          refused_value("protocol", std::string(to_string(protocol)), "tcp"));
        }
    }
    return {};
}

std::expected<void, UsageError> check_names(const BenchRequest& request, std::string_view option,
                                            const std::vector<std::string>& given,
                                            std::span<const std::string_view> known) {
    for (const std::string& name : given) {
        if (std::ranges::find(known, name) == known.end()) {
            return refuse(request.bench,
                          refused_value(option, name, one_of({known.begin(), known.end()})));
        }
    }
    return {};
}

std::expected<void, UsageError> check_programs(const BenchRequest& request) {
    const bench::Selection& selection = request.selection;
    const auto programs =
        request.bench != nullptr ? request.bench->programs() : bench::program_names();
    auto checked = check_names(request, "program", selection.programs, programs);
    return checked ? check_names(request, "engine", selection.engines, bench::engine_names())
                   : checked;
}

std::uint64_t random_seed() {
    std::random_device source;
    return source();
}

}  // namespace

bool knows_option(const BenchEntry& bench, std::string_view option) {
    return std::ranges::find(bench.options, option) != bench.options.end() ||
           std::ranges::find(kCommonOptions, option) != std::end(kCommonOptions);
}

std::expected<BenchRequest, UsageError> make_request(std::string_view bench_name,
                                                     const std::vector<GivenOption>& given) {
    BenchRequest request;
    request.bench = find_bench(bench_name);
    if (request.bench == nullptr && !bench_name.empty()) {
        return refuse(nullptr, fmt::format("unknown bench '{}'; accepted: {}", bench_name,
                                           one_of(bench_names())));
    }
    request.selection.seed = random_seed();
    request.selection.is_headline = request.bench == nullptr;
    for (const auto& [option, value] : given) {
        if (request.bench != nullptr && !knows_option(*request.bench, option->name)) {
            return refuse(request.bench,
                          fmt::format("it has no option --{}; accepted: {}", option->name,
                                      one_of(with_dashes(*request.bench))));
        }
        std::string refused;
        if (!option->apply(value, request, refused)) {
            return refuse(request.bench, refused_value(option->name, refused, option->accepted));
        }
    }
    if (auto checked = check_allocators(request); !checked) {
        return std::unexpected(checked.error());
    }
    if (auto checked = check_protocols(request); !checked) {
        return std::unexpected(checked.error());
    }
    if (auto checked = check_programs(request); !checked) {
        return std::unexpected(checked.error());
    }
    return request;
}

}  // namespace berth::cli
