// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_request.h"

#include "cli/values.h"

#include <array>
#include <utility>

namespace berth::cli {
namespace {

template <class T>
struct Named {
    std::string_view name;
    T value;
};

constexpr Named<Protocol> kProtocols[] = {{"udp", Protocol::udp}, {"tcp", Protocol::tcp}};
constexpr Named<Family> kFamilies[] = {{"ipv4", Family::ipv4}, {"ipv6", Family::ipv6}};
constexpr Named<bench::WorkerMode> kModes[] = {{"processes", bench::WorkerMode::processes},
                                               {"threads", bench::WorkerMode::threads}};
constexpr Named<Format> kFormats[] = {{"text", Format::text},
                                      {"json", Format::json},
                                      {"csv", Format::csv},
                                      {"ndjson", Format::ndjson}};
constexpr Named<bench::NamespaceChoice> kChoices[] = {{"auto", bench::NamespaceChoice::automatic},
                                                      {"host", bench::NamespaceChoice::host}};

template <class T, std::size_t Size>
std::expected<T, Refused> parse_name(std::string_view text, const Named<T> (&names)[Size]) {
    for (const Named<T>& candidate : names) {
        if (candidate.name == text) {
            return candidate.value;
        }
    }
    return std::unexpected(std::string(text));
}

/// Stores a parsed value; the refused part otherwise.
template <class T, class Target>
bool store(std::expected<T, Refused> parsed, Target& target, std::string& refused) {
    if (!parsed) {
        refused = parsed.error();
        return false;
    }
    target = std::move(*parsed);
    return true;
}

template <class T>
bool store_numbers(std::string_view text, std::vector<T>& target, T least, T most,
                   std::string& refused) {
    return store(
        parse_list(text, [&](std::string_view item) { return parse_number(item, least, most); }),
        target, refused);
}

template <class T, std::size_t Size>
bool store_names(std::string_view text, std::vector<T>& target, const Named<T> (&names)[Size],
                 std::string& refused) {
    return store(parse_list(text, [&](std::string_view item) { return parse_name(item, names); }),
                 target, refused);
}

std::expected<std::string, Refused> parse_text(std::string_view text) {
    return text.empty() ? std::expected<std::string, Refused>(std::unexpect, text)
                        : std::expected<std::string, Refused>(text);
}

using Text = std::string_view;
using Request = BenchRequest;

constexpr BenchOption kOptions[] = {
    {"protocol", "udp or tcp, separated by commas", "Protocols to measure",
     [](Text value, Request& request, std::string& refused) {
         return store_names(value, request.selection.protocols, kProtocols, refused);
     }},
    {"family", "ipv4 or ipv6, separated by commas", "Address families to measure",
     [](Text value, Request& request, std::string& refused) {
         return store_names(value, request.selection.families, kFamilies, refused);
     }},
    {"allocator", "names of allocators, separated by commas", "Who chooses the ports",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_list(value, parse_text), request.selection.allocators, refused);
     }},
    {"occupancy", "percentages from 0 to 100, separated by commas",
     "Parts of the ports that are taken",
     [](Text value, Request& request, std::string& refused) {
         return store_numbers(value, request.selection.occupancies_percent, 0.0, 100.0, refused);
     }},
    {"threads", "numbers from 1 to 1024, separated by commas", "Threads at work",
     [](Text value, Request& request, std::string& refused) {
         return store_numbers(value, request.selection.threads, 1U, 1024U, refused);
     }},
    {"destinations", "numbers from 1 to 16, separated by commas", "Destinations to connect to",
     [](Text value, Request& request, std::string& refused) {
         return store_numbers(value, request.selection.destinations, 1U, 16U, refused);
     }},
    {"program", "names of programs, separated by commas", "Who waits for events",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_list(value, parse_text), request.selection.programs, refused);
     }},
    {"engine", "names of engines, separated by commas", "How they wait",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_list(value, parse_text), request.selection.engines, refused);
     }},
    {"connections", "numbers from 1 to 60000, separated by commas",
     "Connections that carry something",
     [](Text value, Request& request, std::string& refused) {
         return store_numbers(value, request.selection.connections, 1U, 60'000U, refused);
     }},
    {"idle", "numbers from 0 to 60000, separated by commas", "Connections that say nothing",
     [](Text value, Request& request, std::string& refused) {
         return store_numbers(value, request.selection.idle, 0U, 60'000U, refused);
     }},
    {"workers", "a number from 1 to 1024", "Workers that bind in a loop",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_number(value, 1U, 1024U), request.selection.workers, refused);
     }},
    {"mode", "processes or threads", "What the workers are",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_name(value, kModes), request.selection.mode, refused);
     }},
    {"rate", "a number of binds per second from 0 (as fast as they can) to 10000000",
     "Binds per second of all workers together",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_number(value, 0.0, 1e7), request.selection.rate, refused);
     }},
    {"hold", "a percentage from 0 to 100", "Part of the ports that a holder keeps taken",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_number(value, 0.0, 100.0), request.selection.hold_percent, refused);
     }},
    {"seconds", "a number of seconds from 0.1 to 3600", "Time for one measurement, at most",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_number(value, 0.1, 3600.0), request.selection.seconds, refused);
     }},
    {"probe", "a command line", "Program to run as the probe, instead of berth's own",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_text(value), request.selection.probe_command, refused);
     }},
    {"repeats", "a number from 1 to 1000", "Rounds, in which the allocators take turns",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_number(value, 1U, 1000U), request.selection.repeats, refused);
     }},
    {"seed", "a whole number from 0 to 9007199254740991",
     "Of orders and shuffles; never of berth's ports",
     [](Text value, Request& request, std::string& refused) {
         constexpr std::uint64_t kLargestExactInJson = 9'007'199'254'740'991;
         return store(parse_number(value, std::uint64_t{0}, kLargestExactInJson),
                      request.selection.seed, refused);
     }},
    {"format", "text, json, csv or ndjson", "Form of the result on standard output",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_name(value, kFormats), request.format, refused);
     }},
    {"namespace", "auto or host",
     "auto: a network namespace of its own where one is allowed; host: the loopback addresses of "
     "this one",
     [](Text value, Request& request, std::string& refused) {
         return store(parse_name(value, kChoices), request.where, refused);
     }},
};

}  // namespace

std::span<const BenchOption> bench_options() { return kOptions; }

}  // namespace berth::cli
