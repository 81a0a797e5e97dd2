// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/connector.h"

#include "bench/guest/guest.h"

#include <cerrno>
#include <cstring>

namespace berth::bench {
namespace {

constexpr std::string_view kAllocators[] = {"kernel",         "kernel+bind", "kernel+noport",
                                            "kernel+range",   "berth",       kRunAllocator,
                                            kRunBpfAllocator, "floor"};

/// By system calls; what comes before the connect() is the subclass's.
class SystemConnector : public Connector {
public:
    bool connect(Socket& socket, const Address& remote) override {
        return prepare(socket) && did(::connect(socket.fd(), remote.data(), remote.size()));
    }
    std::string failure() const override { return std::strerror(errno_); }
    bool is_exhausted() const override { return errno_ == EADDRNOTAVAIL || errno_ == EADDRINUSE; }

protected:
    virtual bool prepare(Socket&) { return true; }

    bool bind_to(const Socket& socket, const Address& local) {
        return did(::bind(socket.fd(), local.data(), local.size()));
    }
    bool did(const Result<void>& result) {
        return result ? true : did(-1, result.error().system_errno());
    }
    bool did(int result) { return did(result, errno); }

private:
    bool did(int result, int system_errno) {
        errno_ = result == 0 ? errno_ : system_errno;
        return result == 0;
    }

    int errno_ = 0;
};

class KernelBindConnector : public SystemConnector {
public:
    explicit KernelBindConnector(const Address& local) : local_(local) {}

protected:
    bool prepare(Socket& socket) override { return bind_to(socket, local_); }

private:
    Address local_;
};

class KernelNoPortConnector : public KernelBindConnector {
public:
    using KernelBindConnector::KernelBindConnector;

protected:
    bool prepare(Socket& socket) override {
        return did(socket.set_bind_address_no_port(true)) && KernelBindConnector::prepare(socket);
    }
};

class KernelRangeConnector : public SystemConnector {
public:
    explicit KernelRangeConnector(PortRange range) : range_(range) {}

protected:
    bool prepare(Socket& socket) override { return did(socket.set_local_port_range(range_)); }

private:
    PortRange range_;
};

class FloorConnector : public SystemConnector {
public:
    explicit FloorConnector(const ConnectScene& scene) {
        for (const std::uint16_t port : scene.free_ports) {
            addresses_.push_back(scene.local.with_port(port));
        }
    }

protected:
    bool prepare(Socket& socket) override {
        const std::size_t index = next_++;
        next_ = next_ == addresses_.size() ? 0 : next_;
        return bind_to(socket, addresses_[index]);
    }

private:
    std::vector<Address> addresses_;
    std::size_t next_ = 0;
};

class TableConnector : public Connector {
public:
    explicit TableConnector(PortTable& table) : table_(table) {}
    bool connect(Socket& socket, const Address& remote) override {
        Result<Port> port = table_.connect(socket, remote);
        if (port) {
            port_ = std::move(*port);
            return true;
        }
        error_ = port.error();
        return false;
    }
    void after_keep() override { kept_.push_back(std::move(port_)); }
    void after_close() override { port_.release(); }
    std::string failure() const override { return error_ ? error_->message() : ""; }
    bool is_exhausted() const override { return error_ && error_->code() == Errc::ports_exhausted; }

private:
    PortTable& table_;
    Port port_;
    std::vector<Port> kept_;
    std::optional<Error> error_;
};

}  // namespace

std::span<const std::string_view> connect_allocators() noexcept { return kAllocators; }

std::unique_ptr<Connector> make_connector(std::string_view name, const ConnectScene& scene) {
    if (name == "kernel") {
        return std::make_unique<SystemConnector>();
    }
    if (name == "kernel+bind") {
        return std::make_unique<KernelBindConnector>(scene.local);
    }
    if (name == "kernel+noport") {
        return std::make_unique<KernelNoPortConnector>(scene.local);
    }
    if (name == "kernel+range") {
        return std::make_unique<KernelRangeConnector>(scene.range);
    }
    if (name == "berth") {
        return std::make_unique<TableConnector>(*scene.table);
    }
    return scene.free_ports.empty() ? nullptr : std::make_unique<FloorConnector>(scene);
}

Result<Socket> open_resetting_socket(Family family) {
    Socket socket = BERTH_TRY(tcp_socket(family));
    const linger reset = {1, 0};
    if (::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) != 0) {
        return std::unexpected(Error::from_errno(errno, "set", "SO_LINGER"));
    }
    return socket;
}

}  // namespace berth::bench
