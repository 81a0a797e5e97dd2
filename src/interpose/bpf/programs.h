// SPDX-License-Identifier: Apache-2.0
#pragma once

// The programs in the kernel: loaded, attached to a cgroup by links (beside programs of others, in
// the order of attaching), and pinned so that they outlive this process, or not: links that are not
// pinned go with it, however it ends.

#include "src/interpose/bpf/maps.h"

#include <berth/descriptor.h>
#include <berth/error.h>

#include <memory>
#include <string>
#include <vector>

struct berth_bpf;  // libbpf's name. NOLINT(readability-identifier-naming)
struct bpf_link;

namespace berth::internal::bpf {

class Programs {
public:
    /// **Errors:** permission_denied, unsupported (the message says what is missing), system.
    static Result<Programs> load();
    Programs(Programs&&) noexcept = default;
    Programs& operator=(Programs&&) noexcept = default;
    ~Programs() = default;

    /// The maps, opened once more.
    Result<Maps> maps() const;
    /// From now on the sockets of the cgroup are noted; ports are chosen once a table is extended.
    Result<void> attach(const Descriptor& cgroup);
    /// Maps and links, below a directory of a bpf file system that exists.
    Result<void> pin(const std::string& directory) const;

private:
    struct Unload {
        void operator()(berth_bpf* object) const noexcept;
    };
    struct Detach {
        void operator()(bpf_link* link) const noexcept;
    };
    explicit Programs(berth_bpf* object) : object_(object) {}

    std::unique_ptr<berth_bpf, Unload> object_;
    std::vector<std::unique_ptr<bpf_link, Detach>> links_;
};

/// The programs of others that see the same calls, as "bind4 cil_sock4_bind".
std::vector<std::string> other_programs(const Descriptor& cgroup);

}  // namespace berth::internal::bpf
