// SPDX-License-Identifier: Apache-2.0
#include "cli/run/run_request.h"

#include "cli/values.h"
#include "src/ports/namespace_settings.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::cli {
namespace {

using Text = std::string_view;
using std::chrono::milliseconds;

constexpr double kLongestWaitSeconds = 3'600;
constexpr std::uint32_t kLongestRestMs = 24 * 3'600 * 1'000;
constexpr std::size_t kLongestTableName = 32;

std::optional<PortRange> parse_range(Text text) {
    const std::size_t dash = text.find('-');
    if (dash == Text::npos) {
        return std::nullopt;
    }
    constexpr std::uint16_t kLast = 65'535;
    const auto first = parse_number<std::uint16_t>(text.substr(0, dash), 1, kLast);
    const auto last = parse_number<std::uint16_t>(text.substr(dash + 1), 1, kLast);
    if (!first || !last || *first > *last) {
        return std::nullopt;
    }
    return PortRange{*first, *last};
}

bool is_table_name(Text text) {
    return !text.empty() && text.size() <= kLongestTableName &&
           std::ranges::all_of(text, [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_';
           });
}

bool apply_when_full(Text value, RunRequest& request) {
    constexpr Text kWait = "wait=";
    if (value == "fail") {
        request.wait_for_port = milliseconds(0);
        return true;
    }
    if (!value.starts_with(kWait)) {
        return false;
    }
    const auto seconds = parse_number(value.substr(kWait.size()), 0.001, kLongestWaitSeconds);
    if (seconds) {
        request.wait_for_port = milliseconds(static_cast<std::int64_t>(*seconds * 1'000));
    }
    return seconds.has_value();
}

constexpr RunOption kOptions[] = {
    {"range", "FIRST-LAST, ports from 1 to 65535",
     "Ports to give out, instead of net.ipv4.ip_local_port_range",
     [](Text value, RunRequest& request) {
         request.range = parse_range(value);
         return request.range.has_value();
     }},
    {"rest", "milliseconds from 0 to 86400000",
     "How long a closed port is not given out while others are free, instead of 500 for UDP and "
     "60000 for TCP",
     [](Text value, RunRequest& request) {
         const auto rest = parse_number(value, std::uint32_t{0}, kLongestRestMs);
         if (rest) request.rest_period = milliseconds(*rest);
         return rest.has_value();
     }},
    {"exclude", "ports and ranges, separated by commas, as 8080,9000-9010",
     "Ports never to give out, beside net.ipv4.ip_local_reserved_ports",
     [](Text value, RunRequest& request) {
         auto ranges = internal::parse_reserved_ports(value);
         if (ranges) request.excluded = std::move(*ranges);
         return ranges.has_value() && !request.excluded.empty();
     }},
    {"per-process", "a number from 1 to 65535", "Ports that one process may hold at once",
     [](Text value, RunRequest& request) {
         const auto limit = parse_number(value, std::uint32_t{1}, std::uint32_t{65'535});
         if (limit) request.per_process = *limit;
         return limit.has_value();
     }},
    {"table", "a name of letters, digits, - and _, at most 32",
     "Share the ports with the other runs of this user that name the same table",
     [](Text value, RunRequest& request) {
         request.table = value;
         return is_table_name(value);
     }},
    {"on-taken", "fail or another",
     "What bind() to a port of the range answers that somebody has: the kernel's error, or another "
     "free port in its place",
     [](Text value, RunRequest& request) {
         request.takes_another = value == "another";
         return value == "another" || value == "fail";
     }},
    {"when-full", "fail or wait=SECONDS, from 0.001 to 3600",
     "What a call does that finds no port: fail as the kernel does, or wait for one so long",
     apply_when_full},
    {"stats", "", "Print a line at the end about what was asked for and given",
     [](Text, RunRequest& request) { return request.wants_stats = true; }},
    {"log", "a file's path", "Write each call that asked for a port there, one JSON object a line",
     [](Text value, RunRequest& request) {
         request.log_path = value;
         return !value.empty();
     }},
    {"bpf", "",
     "By programs in the kernel instead of a preloaded object: any binary, also static ones and "
     "Go (root; Linux 5.18)",
     [](Text, RunRequest& request) { return request.uses_bpf = true; }},
    {"help", "", "Print this help and exit",
     [](Text, RunRequest& request) { return request.wants_help = true; }},
};

const RunOption* find_option(Text name) {
    const auto found = std::ranges::find(kOptions, name, &RunOption::name);
    return found == std::end(kOptions) ? nullptr : found;
}

// What needs something in the program itself does not go with --bpf.
bool is_for_bpf(const RunRequest& request) {
    return request.per_process == 0 && request.table.empty() && !request.takes_another &&
           request.wait_for_port.count() == 0 && request.log_path.empty();
}

std::unexpected<std::string> refuse(const std::string& why) {
    return std::unexpected("berth run: " + why);
}

std::string names_of_options() {
    std::vector<std::string> names;
    for (const RunOption& option : kOptions) names.push_back(fmt::format("--{}", option.name));
    return one_of(names);
}

/// Walks over the words before the program.
class Words {
public:
    explicit Words(std::span<const char* const> words) : words_(words) {}

    /// True: the next word is an option, or what stands for one.
    bool has_option() const {
        return index_ < words_.size() && Text(words_[index_]).starts_with('-') &&
               Text(words_[index_]) != "--" && Text(words_[index_]) != "-";
    }
    std::expected<void, std::string> apply_next(RunRequest& request) {
        const Text word = words_[index_++] == Text("-h") ? Text("--help") : words_[index_ - 1];
        const std::size_t equals = word.find('=');
        const RunOption* option =
            word.starts_with("--") ? find_option(word.substr(2, equals - 2)) : nullptr;
        if (option == nullptr) {
            return refuse(fmt::format("unknown option '{}'; accepted: {}", word.substr(0, equals),
                                      names_of_options()));
        }
        std::optional<Text> value;
        if (equals != Text::npos) {
            value = word.substr(equals + 1);
        } else if (!option->accepted.empty() && index_ < words_.size()) {
            value = words_[index_++];
        }
        return apply(*option, value, request);
    }
    std::vector<std::string> rest() const {
        const std::size_t start =
            index_ < words_.size() && Text(words_[index_]) == "--" ? index_ + 1 : index_;
        return {words_.begin() + static_cast<std::ptrdiff_t>(std::min(start, words_.size())),
                words_.end()};
    }

private:
    static std::expected<void, std::string> apply(const RunOption& option,
                                                  std::optional<Text> value, RunRequest& request) {
        if (!option.accepted.empty() && !value) {
            return refuse(fmt::format("--{} needs a value: {}", option.name, option.accepted));
        }
        if (option.accepted.empty() && value) {
            return refuse(fmt::format("--{} takes no value", option.name));
        }
        if (!option.apply(value.value_or(""), request)) {
            const std::string named =
                value->empty() ? "an empty value" : fmt::format("'{}'", *value);
            return refuse(fmt::format("--{} does not accept {}; accepted: {}", option.name, named,
                                      option.accepted));
        }
        return {};
    }

    std::span<const char* const> words_;
    std::size_t index_ = 0;
};

}  // namespace

std::span<const RunOption> run_options() { return kOptions; }

std::expected<RunRequest, std::string> make_run_request(std::span<const char* const> arguments) {
    RunRequest request;
    Words words(arguments);
    while (words.has_option() && !request.wants_help) {
        if (auto applied = words.apply_next(request); !applied) {
            return std::unexpected(applied.error());
        }
    }
    request.command = words.rest();
    if (request.command.empty() && !request.wants_help) {
        return refuse("a program is missing; write: berth run [options] -- PROGRAM [ARGUMENTS]");
    }
    if (request.uses_bpf && !is_for_bpf(request)) {
        return refuse("--bpf goes with --range, --rest, --exclude and --stats only");
    }
    return request;
}

std::string run_help() {
    std::string help =
        "Run a program with berth's local ports: its bind(0), connect() and sendto() cost the "
        "same\n"
        "however many ports are taken. The program is not changed; it must use libc.\n\n"
        "berth run [options] -- PROGRAM [ARGUMENTS]\n\nOptions:\n";
    for (const RunOption& option : kOptions) {
        help += option.accepted.empty()
                    ? fmt::format("  --{:<14}{}\n", option.name, option.description)
                    : fmt::format("  --{:<14}{}: {}\n", option.name, option.description,
                                  option.accepted);
    }
    help +=
        "\nAll processes that the program starts share the ports. A port of a TCP connection "
        "serves\n"
        "other destinations too. What the program binds by number is the kernel's to decide, and "
        "is\n"
        "noted. A program in another network namespace, or one that berth cannot enter, is left\n"
        "alone.\n\n"
        "Exit status: the program's own, and its signal if it dies of one. 125 berth itself "
        "failed,\n"
        "126 the program cannot be run, 127 it was not found, 2 wrong usage, 3 a kernel feature "
        "or\n"
        "a privilege is missing, or berth cannot enter this program.\n";
    return help;
}

}  // namespace berth::cli
