// SPDX-License-Identifier: Apache-2.0
#include "cli/output/report.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace berth::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "berth.bench/1";

/// Whole numbers without ".0"; what is no number (not measured, infinite) is null.
Json to_json(const bench::Value& value) {
    if (const auto* text = std::get_if<std::string>(&value)) {
        return *text;
    }
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        return *integer;
    }
    const auto* real = std::get_if<double>(&value);
    if (real == nullptr || !std::isfinite(*real)) {
        return nullptr;
    }
    constexpr double kLargestExact = 9e15;
    if (*real == std::round(*real) && std::abs(*real) < kLargestExact) {
        return static_cast<std::int64_t>(*real);
    }
    return *real;
}

Json to_json(const bench::Row& row) {
    Json object = {{"bench", row.bench}};
    for (const auto& [key, value] : row.variables) {
        object[key] = to_json(value);
    }
    for (const auto& [key, value] : row.figures) {
        object[key] = to_json(value);
    }
    return object;
}

Json to_json(const HostFacts& host) {
    return {{"kernel", host.kernel},      {"cpus", host.cpus}, {"port_range", host.port_range},
            {"version", host.version},    {"seed", host.seed}, {"started", host.started},
            {"namespace", host.isolation}};
}

void add_closing(Json& object, const Closing& closing) {
    object["summary"] = closing.summary;
    object["notes"] = closing.notes;
    object["partial"] = closing.is_partial;
}

class JsonWriter : public ReportWriter {
public:
    JsonWriter(std::ostream& out, HostFacts host) : out_(out), host_(std::move(host)) {}

    void row(const bench::Row& row) override { rows_.push_back(to_json(row)); }
    void end_bench() override {}
    void finish(const Closing& closing) override {
        Json object = {{"schema", kSchema}, {"host", to_json(host_)}, {"rows", rows_}};
        add_closing(object, closing);
        out_ << object.dump(2) << '\n';
    }

private:
    std::ostream& out_;
    HostFacts host_;
    Json rows_ = Json::array();
};

class NdjsonWriter : public ReportWriter {
public:
    NdjsonWriter(std::ostream& out, const HostFacts& host) : out_(out) {
        write({{"schema", kSchema}, {"host", to_json(host)}});
    }

    void row(const bench::Row& row) override { write(to_json(row)); }
    void end_bench() override {}
    void finish(const Closing& closing) override {
        Json object = Json::object();
        add_closing(object, closing);
        write(object);
    }

private:
    void write(const Json& object) { (out_ << object.dump() << '\n').flush(); }

    std::ostream& out_;
};

}  // namespace

std::unique_ptr<ReportWriter> make_json_writer(std::ostream& out, HostFacts host) {
    return std::make_unique<JsonWriter>(out, std::move(host));
}

std::unique_ptr<ReportWriter> make_ndjson_writer(std::ostream& out, const HostFacts& host) {
    return std::make_unique<NdjsonWriter>(out, host);
}

}  // namespace berth::cli
