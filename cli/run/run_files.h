// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files by which a supervisor and the programs of a run share their ports: in /dev/shm, for
// this user alone.
//
//   berth-run.UID.PIDNS-PROCESS.page, .udp, .tcp    of one run; gone when it has ended
//   berth-run.UID.table-NAME.udp, .tcp              of --table NAME; they stay
//
// PROCESS is the supervisor's pid and start time, in the pid namespace PIDNS: containers may share
// /dev/shm, and only those of the own one can be told to be dead. What a killed supervisor has left
// is removed by the next run; programs that still have it mapped keep it.

#include "cli/run/run_request.h"
#include "src/interpose/run_page.h"

#include <berth/ports.h>

#include <string>
#include <vector>

namespace berth::cli {

class RunFiles {
public:
    /// **Errors:** invalid_argument when a named table has another range than the request; those of
    /// PortTable::open().
    static Result<RunFiles> make(const RunRequest& request);

    RunFiles(RunFiles&& other) noexcept;
    RunFiles& operator=(RunFiles&&) = delete;
    ~RunFiles();

    internal::RunPage& page() noexcept { return *page_; }
    const std::string& page_path() const noexcept { return page_path_; }
    PortTable& table(Protocol protocol) noexcept {
        return tables_[static_cast<std::size_t>(protocol)];
    }

private:
    RunFiles() = default;
    Result<void> open_tables(const RunRequest& request, const std::string& prefix);
    Result<void> make_page(const RunRequest& request);

    internal::RunPage* page_ = nullptr;
    std::string page_path_;
    std::vector<std::string> table_paths_;  // index: Protocol
    std::vector<PortTable> tables_;         // index: Protocol
    std::vector<std::string> own_paths_;    // to be removed
};

/// Removes the files of this user's runs whose supervisor is dead.
void remove_abandoned_files();

}  // namespace berth::cli
