// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/history/port_model.h"

#include <berth/ports.h>

#include <memory>
#include <vector>

namespace berth::bench {

/// berth's table in the place of the kernel's: the real one, with sockets of the same size.
class BerthModel final : public PortModel {
public:
    static Result<std::unique_ptr<PortModel>> create(PortRange range);

    BerthModel(PortRange range, PortTable table)
        : PortModel(range), table_(std::move(table)), ports_(range.size()) {}

    bool bind(ModelSocket& socket, Search& search) override;
    void close(ModelSocket* socket) override;
    std::vector<ModelSocket*> fill() override;

protected:
    void bind_free_port(ModelSocket& socket, std::uint16_t port) override;

private:
    PortTable table_;
    std::vector<Port> ports_;  // index = port − range.first; an entry belongs to its port's holder
};

}  // namespace berth::bench
