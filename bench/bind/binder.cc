// SPDX-License-Identifier: Apache-2.0
#include "bench/bind/binder.h"

#include "bench/guest/guest.h"
#include "bench/harness/statistics.h"

#include <cerrno>
#include <cstring>

namespace berth::bench {
namespace {

constexpr std::string_view kAllocators[] = {"kernel",      "kernel+range",   "berth", "berth-fd",
                                            kRunAllocator, kRunBpfAllocator, "floor"};

/// bind() by the system call; which port it asks for is the subclass's.
class SystemBinder : public Binder {
public:
    std::string failure() const override { return std::strerror(errno_); }

protected:
    bool bind_to(const Socket& socket, const Address& address) {
        if (::bind(socket.fd(), address.data(), address.size()) == 0) {
            return true;
        }
        errno_ = errno;
        return false;
    }

private:
    int errno_ = 0;
};

class KernelBinder : public SystemBinder {
public:
    explicit KernelBinder(const Address& local) : local_(local) {}
    bool bind(const Socket& socket) override { return bind_to(socket, local_); }

private:
    Address local_;
};

class KernelRangeBinder : public KernelBinder {
public:
    explicit KernelRangeBinder(const BindScene& scene)
        : KernelBinder(scene.local), range_(scene.range) {}
    Result<void> prepare(Socket& socket) override { return socket.set_local_port_range(range_); }

private:
    PortRange range_;
};

class FloorBinder : public SystemBinder {
public:
    explicit FloorBinder(const BindScene& scene) {
        for (const std::uint16_t port : scene.free_ports) {
            addresses_.push_back(scene.local.with_port(port));
        }
    }
    bool bind(const Socket& socket) override {
        const std::size_t index = next_++;
        next_ = next_ == addresses_.size() ? 0 : next_;
        return bind_to(socket, addresses_[index]);
    }

private:
    std::vector<Address> addresses_;
    std::size_t next_ = 0;
};

enum class BindBy : std::uint8_t { socket, descriptor };

class TableBinder : public Binder {
public:
    TableBinder(const BindScene& scene, BindBy by)
        : table_(*scene.table), local_(scene.local), by_(by) {}
    bool bind(const Socket& socket) override {
        Result<Port> port =
            by_ == BindBy::socket ? table_.bind(socket, local_) : table_.bind(socket.fd(), local_);
        if (port) {
            port_ = std::move(*port);
            return true;
        }
        error_ = port.error();
        return false;
    }
    void after_close() override { port_.release(); }
    std::string failure() const override { return error_ ? error_->message() : ""; }

private:
    PortTable& table_;
    Address local_;
    BindBy by_;
    Port port_;
    std::optional<Error> error_;
};

}  // namespace

std::span<const std::string_view> bind_allocators() noexcept { return kAllocators; }

Result<void> Binder::prepare(Socket&) { return {}; }

std::unique_ptr<Binder> make_binder(std::string_view name, const BindScene& scene) {
    if (name == "kernel") {
        return std::make_unique<KernelBinder>(scene.local);
    }
    if (name == "kernel+range") {
        return std::make_unique<KernelRangeBinder>(scene);
    }
    if (name == "berth") {
        return std::make_unique<TableBinder>(scene, BindBy::socket);
    }
    if (name == "berth-fd") {
        return std::make_unique<TableBinder>(scene, BindBy::descriptor);
    }
    return scene.free_ports.empty() ? nullptr : std::make_unique<FloorBinder>(scene);
}

Result<Batch> measure_binds(Binder& binder, Protocol protocol, Family family,
                            const BatchLimits& limits) {
    Batch batch;
    const std::uint64_t batch_start_ns = now_ns();
    while (!limits.is_over(batch.size(), now_ns() - batch_start_ns)) {
        Socket socket = BERTH_TRY(Socket::open(protocol, family));
        BERTH_TRY(binder.prepare(socket));
        const std::uint64_t start_ns = now_ns();
        const bool is_bound = binder.bind(socket);
        const std::uint64_t elapsed_ns = now_ns() - start_ns;
        (is_bound ? batch.succeeded_ns : batch.failed_ns).push_back(elapsed_ns);
        if (!is_bound && batch.first_failure.empty()) {
            batch.first_failure = binder.failure();
        }
        socket.close();
        binder.after_close();
    }
    return batch;
}

}  // namespace berth::bench
