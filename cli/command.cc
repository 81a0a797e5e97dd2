// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include "bench/guest/guest.h"
#include "bench/programs/program.h"
#include "cli/attach/attach.h"
#include "cli/bench.h"
#include "cli/bench_request.h"
#include "cli/run/run.h"
#include "cli/values.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace berth::cli {
namespace {

constexpr const char* kFooter =
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing,\n"
    "4 the result is there but not complete. 'berth run' passes its program's status on.";

ExitCode refuse(std::ostream& err, const std::string& message) {
    err << message << '\n';
    return ExitCode::usage;
}

/// The grammar: which words there are. What their values may be is checked in make_request().
class CommandLine {
public:
    CommandLine() {
        app_.name("berth");
        app_.description(
            "berth keeps a host fast that holds very many sockets and has almost no "
            "local ports left.");
        app_.footer(kFooter);
        app_.set_version_flag("--version", "berth " BERTH_VERSION, "Print the version and exit");
        app_.set_help_flag("-h,--help", "Print this help and exit");
        app_.allow_extras();
        // These have a grammar of their own: see run().
        app_.add_subcommand("run", "Run a program with berth's local ports");
        for (const AttachVerb& verb : attach_verbs()) {
            app_.add_subcommand(std::string(verb.name), std::string(verb.description));
        }
        bench_ = app_.add_subcommand("bench", "Measure what local ports cost on this host");
        prepare(*bench_);
        bench_->footer(
            "Without a name: the headline of all, in about 2 minutes. Everything runs "
            "in a network\nnamespace of its own and changes nothing on the host.\n" +
            std::string(kFooter));
        for (const BenchOption& option : bench_options()) {
            add_option(option);
        }
        for (const BenchEntry& entry : bench_catalogue()) {
            prepare(
                *bench_->add_subcommand(std::string(entry.name), std::string(entry.description)))
                .footer(help_of(entry));
        }
    }

    ExitCode run(std::span<const char* const> arguments, std::ostream& out, std::ostream& err) {
        std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
        try {
            app_.parse(std::move(reversed));
        } catch (const CLI::CallForHelp&) {
            out << app_.help();
            return ExitCode::ok;
        } catch (const CLI::CallForVersion&) {
            out << "berth " BERTH_VERSION "\n";
            return ExitCode::ok;
        } catch (const CLI::ArgumentMismatch& error) {
            return refuse(err, missing_value(error.what()));
        } catch (const CLI::ParseError& error) {
            return refuse(err, fmt::format("berth: {}", error.what()));
        }
        return dispatch(out, err);
    }

private:
    static CLI::App& prepare(CLI::App& command) {
        command.allow_extras();
        command.fallthrough();
        command.set_help_flag("-h,--help", "Print this help and exit");
        return command;
    }

    void add_option(const BenchOption& option) {
        bench_
            ->add_option(fmt::format("--{}", option.name), values_[option.name],
                         fmt::format("{}: {}", option.description, option.accepted))
            ->type_name("")
            ->multi_option_policy(option.is_list() ? CLI::MultiOptionPolicy::Join
                                                   : CLI::MultiOptionPolicy::TakeLast);
    }

    static std::string help_of(const BenchEntry& entry) {
        std::vector<std::string> allocators;
        for (const std::string_view name : entry.allocators()) {
            allocators.emplace_back(name);
        }
        std::string help = "Options of the measurement:\n";
        for (const BenchOption& option : bench_options()) {
            if (knows_option(entry, option.name)) {
                help += fmt::format("  --{:<26}{}: {}\n", option.name, option.description,
                                    option.accepted);
            }
        }
        if (!allocators.empty()) {
            return fmt::format("{}\nAllocators: {}", help, one_of(allocators));
        }
        help += fmt::format("\nPrograms: {}", names_of(entry.programs()));
        return knows_option(entry, "engine")
                   ? fmt::format("{}\nEngines: {}", help, names_of(bench::engine_names()))
                   : help;
    }

    static std::string names_of(std::span<const std::string_view> names) {
        return one_of({names.begin(), names.end()});
    }

    /// CLI11's text names the option; what it wants is known here.
    static std::string missing_value(const std::string& text) {
        for (const BenchOption& option : bench_options()) {
            if (text.find(fmt::format("--{}", option.name)) != std::string::npos) {
                return fmt::format("berth bench: --{} needs a value: {}", option.name,
                                   option.accepted);
            }
        }
        return fmt::format("berth: {}", text);
    }

    ExitCode dispatch(std::ostream& out, std::ostream& err) {
        if (!bench_->parsed()) {
            const std::vector<std::string> extras = app_.remaining();
            return refuse(err,
                          extras.empty()
                              ? "berth: a verb is missing; accepted: run, attach, detach, agent or "
                                "bench; see 'berth --help'"
                              : unknown_word("berth", "verb", extras.front(),
                                             "run, attach, detach, agent or bench"));
        }
        const std::vector<CLI::App*> chosen = bench_->get_subcommands();
        const std::string name = chosen.empty() ? "" : chosen.front()->get_name();
        if (chosen.size() > 1) {
            return refuse(err, fmt::format("berth bench: '{}' and '{}' together; accepted: one "
                                           "bench, or none for the headline of all",
                                           name, chosen[1]->get_name()));
        }
        const std::vector<std::string> extras = app_.remaining(true);
        if (!extras.empty()) {
            return refuse(err, unknown_bench_word(name, extras.front()));
        }
        const auto request = make_request(name, given_options());
        return request ? run_bench(*request, out, err) : refuse(err, request.error().message);
    }

    static std::string unknown_word(std::string_view command, std::string_view kind,
                                    std::string_view word, std::string_view accepted) {
        const bool is_option = word.starts_with('-');
        return is_option
                   ? fmt::format("{}: unknown option '{}'; see '{} --help'", command, word, command)
                   : fmt::format("{}: unknown {} '{}'; accepted: {}", command, kind, word,
                                 accepted);
    }

    static std::string unknown_bench_word(const std::string& bench, const std::string& word) {
        std::vector<std::string> options;
        for (const BenchOption& option : bench_options()) {
            options.push_back(fmt::format("--{}", option.name));
        }
        std::vector<std::string> names;
        for (const BenchEntry& entry : bench_catalogue()) {
            names.emplace_back(entry.name);
        }
        const std::string command = bench.empty() ? "berth bench" : "berth bench " + bench;
        if (word.starts_with('-')) {
            return fmt::format("{}: unknown option '{}'; accepted: {}", command, word,
                               one_of(options));
        }
        return bench.empty()
                   ? unknown_word(command, "bench", word, one_of(names))
                   : fmt::format("{}: unexpected word '{}'; accepted: options only", command, word);
    }

    std::vector<GivenOption> given_options() const {
        std::vector<GivenOption> given;
        for (const BenchOption& option : bench_options()) {
            if (bench_->count(fmt::format("--{}", option.name)) > 0) {
                std::string value = values_.at(option.name);
                if (option.is_list()) std::ranges::replace(value, '\n', ',');  // of two, joined
                given.push_back({&option, std::move(value)});
            }
        }
        return given;
    }

    CLI::App app_;
    CLI::App* bench_;
    std::map<std::string_view, std::string> values_;  // by option name
};

}  // namespace

ExitCode run(std::span<const char* const> arguments, std::ostream& out, std::ostream& err) {
    const std::string_view verb = arguments.empty() ? std::string_view() : arguments.front();
    if (verb == "run") {
        return static_cast<ExitCode>(run_program(arguments.subspan(1), out, err));
    }
    if (verb == "bench-guest") {
        return static_cast<ExitCode>(bench::run_guest({arguments.begin() + 1, arguments.end()}));
    }
    for (const AttachVerb& known : attach_verbs()) {
        if (verb == known.name) {
            return run_attach_verb(known.name, arguments.subspan(1), out, err);
        }
    }
    return CommandLine().run(arguments, out, err);
}

}  // namespace berth::cli
