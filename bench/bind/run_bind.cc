// SPDX-License-Identifier: Apache-2.0
// `berth bench bind`: what one bind to a fresh port costs while more and more ports are taken.

#include "bench/bind/binder.h"
#include "bench/bind/port_filler.h"
#include "bench/guest/guest.h"
#include "bench/harness/choices.h"
#include "bench/harness/environment.h"
#include "bench/harness/series.h"

#include <algorithm>
#include <functional>

namespace berth::bench {
namespace {

constexpr Protocol kProtocols[] = {Protocol::udp, Protocol::tcp};
constexpr Family kFamilies[] = {Family::ipv4, Family::ipv6};
constexpr double kOccupancies[] = {0, 10, 45, 50, 60, 90, 99, 99.9, 100};
constexpr unsigned kRepeats = 7;

constexpr Family kHeadlineFamilies[] = {Family::ipv4};
constexpr double kHeadlineOccupancies[] = {0, 50, 99, 99.9, 100};
constexpr std::string_view kHeadlineAllocators[] = {"kernel",      "kernel+range",   "berth",
                                                    kRunAllocator, kRunBpfAllocator, "floor"};
constexpr unsigned kHeadlineRepeats = 5;

struct Plan {
    std::vector<Protocol> protocols;
    std::vector<Family> families;
    std::vector<std::string> allocators;
    std::vector<double> occupancies;
    unsigned repeats = kRepeats;
    std::uint64_t seed = 0;

    std::size_t step_count() const {
        return protocols.size() * families.size() * occupancies.size() * repeats;
    }
};

Result<Plan> make_plan(const Selection& selection, const Environment& environment,
                       Reporter& reporter) {
    const bool is_short = selection.is_headline;
    Plan plan;
    plan.protocols = or_default(selection.protocols, std::span<const Protocol>(kProtocols));
    plan.families = BERTH_TRY(choose_families(
        selection, is_short ? std::span<const Family>(kHeadlineFamilies) : kFamilies, environment,
        reporter));
    plan.allocators = BERTH_TRY(choose_allocators_and_guests(
        selection,
        is_short ? std::span<const std::string_view>(kHeadlineAllocators) : bind_allocators(),
        reporter));
    plan.occupancies = choose_occupancies(
        selection, is_short ? std::span<const double>(kHeadlineOccupancies) : kOccupancies,
        environment, reporter);
    plan.repeats = selection.repeats.value_or(is_short ? kHeadlineRepeats : kRepeats);
    plan.seed = selection.seed;
    return plan;
}

class BindBench {
public:
    BindBench(Plan plan, const Environment& environment, Reporter& reporter)
        : plan_(std::move(plan)), environment_(environment), reporter_(reporter) {}

    Result<void> run() {
        for (const Protocol protocol : plan_.protocols) {
            for (const Family family : plan_.families) {
                BERTH_TRY(run_space(protocol, family));
            }
        }
        return {};
    }

private:
    Result<void> run_space(Protocol protocol, Family family) {
        PortFiller filler(environment_, protocol, family, plan_.seed);
        for (const double occupancy : plan_.occupancies) {
            BERTH_TRY(filler.fill_to(ports_at(occupancy, environment_.range.size())));
            BERTH_TRY(run_occupancy(protocol, family, occupancy, filler.free_ports()));
            if (reporter_.is_interrupted()) {
                break;
            }
        }
        return {};
    }

    Result<void> run_occupancy(Protocol protocol, Family family, double occupancy,
                               std::span<const std::uint16_t> free_ports) {
        // Made after the fill, so that it learns from the kernel what is taken, as a program does
        // that starts on a busy host.
        PortTable table = BERTH_TRY(PortTable::create(protocol));
        const BindScene scene = {bind_address(environment_, family), environment_.range, &table,
                                 free_ports};
        std::vector<Entry> entries;
        for (const std::string& name : plan_.allocators) {
            if (is_guest(name)) {
                auto guest = std::make_shared<Guest>(BERTH_TRY(Guest::start(
                    name, {"bind", std::string(to_string(protocol)), scene.local.to_string()})));
                entries.push_back({name, [guest] { return guest->measure(); }, {}});
            } else if (std::shared_ptr<Binder> binder = make_binder(name, scene)) {
                entries.push_back(
                    {name, [=] { return measure_binds(*binder, protocol, family, {}); }, {}});
            }
        }
        BERTH_TRY(run_rounds(entries, protocol, family, occupancy));
        report(entries, protocol, family, occupancy);
        return {};
    }

    struct Entry {
        std::string name;
        std::function<Result<Batch>()> measure;
        Series series;
    };

    /// Each round measures every allocator once, starting with another one each time.
    Result<void> run_rounds(std::vector<Entry>& entries, Protocol protocol, Family family,
                            double occupancy) {
        const std::string what = std::string(to_string(protocol)) + " " +
                                 std::string(to_string(family)) + ", " + percent_text(occupancy);
        for (unsigned round = 0; round < plan_.repeats && !reporter_.is_interrupted(); ++round) {
            reporter_.progress(
                static_cast<double>(steps_done_++) / static_cast<double>(plan_.step_count()), what);
            for (std::size_t turn = 0; turn < entries.size(); ++turn) {
                Entry& entry = entries[(turn + round) % entries.size()];
                entry.series.add(BERTH_TRY(entry.measure()));
            }
        }
        return {};
    }

    void report(const std::vector<Entry>& entries, Protocol protocol, Family family,
                double occupancy) {
        const Series* floor = find(entries, "floor");
        const Series* kernel = find(entries, "kernel");
        for (const Entry& entry : entries) {
            if (entry.series.is_empty()) {
                continue;
            }
            Row row{.bench = "bind", .variables = {}, .figures = {}};
            row.variable("protocol", std::string(to_string(protocol)))
                .variable("family", std::string(to_string(family)))
                .variable("allocator", entry.name)
                .variable("occupancy_percent", occupancy);
            entry.series.add_figures(row);
            row.figure("ratio_to_floor", floor ? entry.series.ratio_to(*floor) : Value{})
                .figure("ratio_to_kernel", kernel ? entry.series.ratio_to(*kernel) : Value{});
            reporter_.row(std::move(row));
            note_failures(entry, occupancy);
        }
    }

    void note_failures(const Entry& entry, double occupancy) {
        const std::int64_t failed = entry.series.failed_count();
        if (occupancy < 100.0 && failed > 0) {
            reporter_.note(
                entry.name + " at " + percent_text(occupancy) + ": " + std::to_string(failed) +
                    " binds failed though ports were free: " + entry.series.first_failure(),
                false);
        }
    }

    static const Series* find(const std::vector<Entry>& entries, std::string_view name) {
        const auto found = std::ranges::find(entries, name, &Entry::name);
        return found == entries.end() ? nullptr : &found->series;
    }

    Plan plan_;
    const Environment& environment_;
    Reporter& reporter_;
    std::size_t steps_done_ = 0;
};

}  // namespace

Result<void> run_bind(const Selection& selection, const Environment& environment,
                      Reporter& reporter) {
    Plan plan = BERTH_TRY(make_plan(selection, environment, reporter));
    return BindBench(std::move(plan), environment, reporter).run();
}

}  // namespace berth::bench
