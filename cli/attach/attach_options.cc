// SPDX-License-Identifier: Apache-2.0
#include "cli/attach/attach_options.h"

#include "cli/values.h"
#include "src/ports/namespace_settings.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <utility>

namespace berth::cli {
namespace {

constexpr const char* kFooter =
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.";

struct GivenWords {
    std::string range;
    std::string excluded;
    bool has_no_agent = false;
};

void add_options(CLI::App& app, bool is_attach, AttachRequest& request, GivenWords& given) {
    app.add_option("--pins", request.pins,
                   "Where maps and links are pinned: a directory of a bpf file system "
                   "(/sys/fs/bpf/berth)")
        ->type_name("DIR");
    if (!is_attach) return;
    app.add_option("--cgroup", request.cgroup,
                   "The programs to cover: a version 2 cgroup; without it the whole host")
        ->type_name("PATH");
    app.add_option("--range", given.range,
                   "The ports to give out; without it each network namespace's "
                   "ip_local_port_range")
        ->type_name("A-B");
    app.add_option("--exclude", given.excluded, "Ports never to give out, as in 8080,9000-9010")
        ->type_name("PORTS");
    app.add_flag("--no-agent", given.has_no_agent,
                 "Start no agent: 'berth agent' must run within 10 s, or the programs step aside");
}

std::string names_of_options(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
        names.push_back(fmt::format("--{}", option->get_lnames().front()));
    }
    return one_of(names);
}

std::string unknown_word(const CLI::App& app, const std::string& word) {
    return word.starts_with('-')
               ? fmt::format("{}: unknown option '{}'; accepted: {}", app.get_name(),
                             word.substr(0, word.find('=')), names_of_options(app))
               : fmt::format("{}: unexpected word '{}'; accepted: {}", app.get_name(), word,
                             names_of_options(app));
}

// CLI11's text names the option.
std::string missing_value(const CLI::App& app, const std::string& text) {
    for (const CLI::Option* option : app.get_options()) {
        const std::string name = fmt::format("--{}", option->get_lnames().front());
        if (text.starts_with(name)) {
            return fmt::format("{}: {} needs a value: {}", app.get_name(), name,
                               option->get_type_name());
        }
    }
    return fmt::format("{0}: {1}; see '{0} --help'", app.get_name(), text);
}

std::expected<std::vector<PortRange>, std::string> parse_ports(std::string_view option,
                                                               const std::string& text) {
    const Result<std::vector<PortRange>> ranges = internal::parse_reserved_ports(text);
    if (!ranges || ranges->empty()) {
        return std::unexpected(fmt::format("berth attach: --{} '{}': expected ports, as in {}",
                                           option, text,
                                           option == "range" ? "32768-60999" : "8080,9000-9010"));
    }
    return *ranges;
}

std::expected<void, std::string> read_ports(const GivenWords& given, AttachRequest& request) {
    if (!given.range.empty()) {
        const auto ranges = parse_ports("range", given.range);
        if (!ranges) return std::unexpected(ranges.error());
        if (ranges->size() != 1) {
            return std::unexpected("berth attach: --range takes one range, as in 32768-60999");
        }
        request.range = ranges->front();
    }
    if (!given.excluded.empty()) {
        auto ranges = parse_ports("exclude", given.excluded);
        if (!ranges) return std::unexpected(ranges.error());
        request.excluded = std::move(*ranges);
    }
    return {};
}

}  // namespace

std::expected<AttachRequest, std::string> parse_attach_request(
    std::string_view verb, std::string_view description, std::span<const char* const> arguments) {
    AttachRequest request;
    GivenWords given;
    CLI::App app(std::string(description), fmt::format("berth {}", verb));
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.footer(kFooter);
    app.allow_extras();
    add_options(app, verb == "attach", request, given);
    try {
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
        request.help = app.help();
        return request;
    } catch (const CLI::ArgumentMismatch& error) {
        return std::unexpected(missing_value(app, error.what()));
    } catch (const CLI::ParseError& error) {
        return std::unexpected(
            fmt::format("berth {0}: {1}; see 'berth {0} --help'", verb, error.what()));
    }
    if (const std::vector<std::string> extras = app.remaining(); !extras.empty()) {
        return std::unexpected(unknown_word(app, extras.front()));
    }
    request.starts_agent = !given.has_no_agent;
    if (auto ports = read_ports(given, request); !ports) {
        return std::unexpected(ports.error());
    }
    return request;
}

}  // namespace berth::cli
