// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a table lives: private memory, a memfd, or a file with mode 0600. A table that somebody
// else made is checked before it is used and refused with the reason, never repaired or trusted.

#include "src/ports/table_layout.h"

#include <berth/descriptor.h>
#include <berth/error.h>
#include <berth/ports.h>

#include <string>
#include <string_view>

namespace berth::internal {

/// What a new table is made with.
struct TableSetup {
    Protocol protocol;
    std::uint32_t rest_period_ms;
    PortRange explicit_range;  // {0, 0}: follow the namespace
    bool honours_reserved;
};

/// A mapped table; unmaps it.
class TableMemory {
public:
    static Result<TableMemory> create_private(const TableSetup& setup);
    static Result<TableMemory> create_memfd(const TableSetup& setup);
    /// Opens or makes the file. `is_new()` tells which.
    static Result<TableMemory> open_file(const std::string& path, const TableSetup& setup);
    static Result<TableMemory> attach(Descriptor memory, Protocol protocol);

    TableMemory(TableMemory&& other) noexcept
        : layout_(std::exchange(other.layout_, nullptr)),
          descriptor_(std::move(other.descriptor_)),
          is_new_(other.is_new_) {}
    TableMemory& operator=(TableMemory&&) = delete;
    ~TableMemory();

    TableLayout& layout() const noexcept { return *layout_; }
    int descriptor() const noexcept { return descriptor_.get(); }
    /// This call made the table: its range and spaces are still to be filled, then publish().
    bool is_new() const noexcept { return is_new_; }
    /// Says to others that the table may be used, and lets them in.
    void publish() noexcept;

private:
    TableMemory(TableLayout* layout, Descriptor descriptor, bool is_new) noexcept
        : layout_(layout), descriptor_(std::move(descriptor)), is_new_(is_new) {}
    static Result<TableMemory> map(Descriptor memory, std::string_view subject);

    TableLayout* layout_;
    Descriptor descriptor_;
    bool is_new_;
};

}  // namespace berth::internal
