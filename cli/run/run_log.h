// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `berth run` tells at the end and while it runs: the line of --stats, the log of --log.

#include "src/interpose/run_page.h"

#include <berth/descriptor.h>
#include <berth/error.h>
#include <berth/socket.h>

#include <string>

namespace berth::cli {

/// `table_size`: ports that a table has.
std::string describe_statistics(const internal::CallStatistics& statistics,
                                std::uint32_t table_size);

/// One JSON object, without an end of line.
std::string describe_event(const internal::RunEvent& event);

/// The file of --log, appended to. Not open without a path.
class RunLog {
public:
    static Result<RunLog> open(const std::string& path);

    bool is_open() const noexcept { return file_.is_open(); }
    /// Writes what has come. `is_last`: also past what a killed program never finished.
    void drain(internal::EventRing& events, bool is_last);
    /// Nothing, or what is to be said of it at the end.
    std::string complaint(const internal::EventRing& events) const;

private:
    void write(const std::string& text);

    Descriptor file_;
    std::string path_;
    int first_error_ = 0;
};

}  // namespace berth::cli
