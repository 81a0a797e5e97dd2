// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/contenders.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace berth::bench {
namespace {

constexpr std::string_view kReference = "epoll";

/// Of whose raw program a program is compared with. The two arrays without an index answer what
/// that index is worth.
std::string_view reference_engine(std::string_view engine) noexcept {
    return engine == "poll-linear" || engine == "poll-sorted" ? "poll" : engine;
}

template <class Names>
bool contains(const Names& names, std::string_view name) {
    return std::ranges::find(names, name) != std::ranges::end(names);
}

/// Of the names that the user gave, or of the defaults; an empty list allows all.
bool is_chosen(const std::vector<std::string>& named, const std::vector<std::string_view>& defaults,
               std::string_view name) {
    return named.empty() ? defaults.empty() || contains(defaults, name) : contains(named, name);
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

/// Programs that were chosen but not built in.
void note_missing_programs(std::span<const Program> programs, const Selection& selection,
                           const ContenderDefaults& defaults, Reporter& reporter) {
    std::vector<std::string> missing;
    for (const std::string_view name : program_names()) {
        const bool is_built = std::ranges::any_of(
            programs, [&](const Program& program) { return program.program == name; });
        if (!is_built && is_chosen(selection.programs, defaults.programs, name)) {
            missing.emplace_back(name);
        }
    }
    if (!missing.empty()) {
        reporter.note(joined(missing) + (missing.size() == 1 ? " is" : " are") +
                          " left out: not there when berth was built",
                      !selection.programs.empty());
    }
}

std::size_t find_raw(std::span<const Contender> contenders, std::string_view engine) {
    const auto found = std::ranges::find_if(
        contenders, [&](const Contender& contender) { return is_raw(*contender.program, engine); });
    return found == contenders.end() ? kNoContender
                                     : static_cast<std::size_t>(found - contenders.begin());
}

/// Neighbours share a reference.
std::vector<std::size_t> by_engine(std::span<const Contender> contenders) {
    std::vector<std::size_t> order(contenders.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t index) {
        const auto engine = std::ranges::find(engine_names(), contenders[index].program->engine);
        return std::pair(engine - engine_names().begin(), index);
    });
    return order;
}

/// `group` with those of `members` that are not in it yet.
std::vector<std::size_t> with(std::vector<std::size_t> group,
                              const std::vector<std::size_t>& members) {
    for (const std::size_t member : members) {
        if (member != kNoContender && std::ranges::find(group, member) == group.end()) {
            group.push_back(member);
        }
    }
    return group;
}

class Chooser {
public:
    Chooser(std::span<const Program> programs, const Selection& selection,
            const ContenderDefaults& defaults, const std::function<bool(const Program&)>& can_do,
            Reporter& reporter)
        : programs_(programs),
          selection_(selection),
          defaults_(defaults),
          can_do_(can_do),
          reporter_(reporter) {}

    std::vector<Contender> choose() {
        std::vector<Contender> wanted;
        for (const Program& program : programs_) {
            if (is_wanted(program) && can_run(program)) {
                wanted.push_back({&program, true, is_named(program)});
            }
        }
        std::vector<Contender> all = missing_references(wanted);
        std::ranges::copy_if(wanted, std::back_inserter(all), is_reference);
        std::ranges::remove_copy_if(wanted, std::back_inserter(all), is_reference);
        return all;
    }

private:
    static bool is_reference(const Contender& contender) {
        return contender.program->program == "raw";
    }

    bool is_wanted(const Program& program) const {
        return can_do_(program) &&
               is_chosen(selection_.programs, defaults_.programs, program.program) &&
               is_chosen(selection_.engines, defaults_.engines, program.engine);
    }

    bool is_named(const Program& program) const {
        return contains(selection_.programs, program.program) &&
               contains(selection_.engines, program.engine);
    }

    bool can_run(const Program& program) {
        if (program.probe == nullptr) {
            return true;
        }
        const Result<void> probed = program.probe();
        if (!probed) {
            const bool was_named = !selection_.programs.empty() || !selection_.engines.empty();
            reporter_.note(name_of(program) + " is left out: " + probed.error().message(),
                           was_named);
        }
        return probed.has_value();
    }

    std::vector<Contender> missing_references(const std::vector<Contender>& wanted) {
        std::vector<Contender> missing;
        for (const Program& program : programs_) {
            const bool is_needed =
                is_raw(program, kReference) ||
                (program.program == "raw" && std::ranges::any_of(wanted, [&](const auto& one) {
                     return reference_engine(one.program->engine) == program.engine;
                 }));
            const bool is_there = std::ranges::any_of(
                wanted, [&](const Contender& one) { return one.program == &program; });
            if (!wanted.empty() && is_needed && !is_there && can_do_(program) &&
                (program.probe == nullptr || program.probe())) {
                missing.push_back({&program, false});
            }
        }
        return missing;
    }

    std::span<const Program> programs_;
    const Selection& selection_;
    const ContenderDefaults& defaults_;
    const std::function<bool(const Program&)>& can_do_;
    Reporter& reporter_;
};

}  // namespace

std::string name_of(const Program& program) {
    return std::string(program.program) + " " + std::string(program.engine);
}

bool is_raw(const Program& program, std::string_view engine) noexcept {
    return program.program == "raw" && program.engine == engine;
}

void note_left_out(const Contender& contender, std::string_view where, const Error& error,
                   Reporter& reporter) {
    const std::string what = name_of(*contender.program) + " " + std::string(where);
    reporter.note(what + " is left out: " + error.message(),
                  error.code() != Errc::unsupported || contender.is_named);
}

ContenderDefaults loop_defaults(bool is_headline, std::vector<std::string_view> headline_engines) {
    return is_headline
               ? ContenderDefaults{{"raw", "berth"}, std::move(headline_engines)}
               : ContenderDefaults{{}, {"select", "poll", "epoll", "epoll-edge", "io_uring"}};
}

Result<std::vector<Contender>> choose_contenders(const Selection& selection,
                                                 const ContenderDefaults& defaults,
                                                 const std::function<bool(const Program&)>& can_do,
                                                 Reporter& reporter) {
    return choose_contenders(programs(), selection, defaults, can_do, reporter);
}

Result<std::vector<Contender>> choose_contenders(std::span<const Program> programs,
                                                 const Selection& selection,
                                                 const ContenderDefaults& defaults,
                                                 const std::function<bool(const Program&)>& can_do,
                                                 Reporter& reporter) {
    note_missing_programs(programs, selection, defaults, reporter);
    std::vector<Contender> chosen =
        Chooser(programs, selection, defaults, can_do, reporter).choose();
    if (chosen.empty()) {
        return std::unexpected(Error(Errc::unsupported, "bench", {}, 0,
                                     "no program of those names can do this here",
                                     "see 'berth bench --help' for the names"));
    }
    return chosen;
}

References references_of(std::span<const Contender> contenders, std::size_t index) {
    return {find_raw(contenders, reference_engine(contenders[index].program->engine)),
            find_raw(contenders, kReference)};
}

std::vector<std::vector<std::size_t>> make_groups(std::span<const Contender> contenders,
                                                  std::size_t capacity) {
    constexpr std::size_t kLeastCapacity = 3;
    std::vector<std::vector<std::size_t>> groups;
    for (const std::size_t index : by_engine(contenders)) {
        if (!contenders[index].is_wanted) {
            continue;
        }
        const References references = references_of(contenders, index);
        const std::vector<std::size_t> needed = {references.epoll, references.raw, index};
        if (groups.empty() ||
            with(groups.back(), needed).size() > std::max(capacity, kLeastCapacity)) {
            groups.emplace_back();
        }
        groups.back() = with(groups.back(), needed);
    }
    return groups;
}

Row contender_row(std::string_view bench, const Program& program) {
    Row row{.bench = std::string(bench), .variables = {}, .figures = {}};
    row.variable("program", std::string(program.program))
        .variable("engine", std::string(program.engine));
    return row;
}

}  // namespace berth::bench
