// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/ports.h>
#include <berth/socket.h>

#include <cstdint>

namespace berth::bench {

/// A socket and its port. The socket closes first, then the port goes back.
struct HeldSocket {
    Port port;  // empty when the kernel chose
    Socket socket;
};

/// Who chooses the port.
class PortChoice {
public:
    virtual ~PortChoice() = default;
    /// What is measured. **Errors:** ports_exhausted or port_in_use when there is no port.
    virtual Result<void> bind(HeldSocket& held) = 0;
    virtual Result<std::uint16_t> port_of(const HeldSocket& held) = 0;
};

class KernelChoice final : public PortChoice {
public:
    explicit KernelChoice(const Address& local) noexcept : local_(local) {}
    Result<void> bind(HeldSocket& held) override;
    Result<std::uint16_t> port_of(const HeldSocket& held) override;

private:
    Address local_;
};

class TableChoice final : public PortChoice {
public:
    /// `table` outlives the choice and every socket it binds.
    TableChoice(PortTable& table, const Address& local) noexcept : table_(table), local_(local) {}
    Result<void> bind(HeldSocket& held) override;
    Result<std::uint16_t> port_of(const HeldSocket& held) override { return held.port.number(); }

private:
    PortTable& table_;
    Address local_;
};

}  // namespace berth::bench
