// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulation.h"

#include "src/base/assert.h"
#include "src/engine/simulation/epoll_instance.h"
#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/pipe.h"
#include "src/engine/simulation/regular_file.h"
#include "src/engine/simulation/simulated_calls.h"
#include "src/engine/simulation/unix_socket.h"
#include "src/engine/simulation/wakeup_file.h"

#include <cerrno>
#include <utility>

namespace berth::internal {
namespace {

using simulated::active_kernel;
using simulated::Bytes;
using simulated::EpollInstance;
using simulated::File;
using simulated::Kernel;
using simulated::PipeEnd;
using simulated::RegularFile;
using simulated::UnixSocket;
using simulated::WakeupFile;

Simulation* active_simulation = nullptr;

int add(Kernel& kernel, std::shared_ptr<File> file) {
    const int fd = kernel.descriptors.add(std::move(file));
    if (fd < 0) {
        errno = -fd;
        return -1;
    }
    return fd;
}

std::array<int, 2> add_pair(Kernel& kernel, std::shared_ptr<File> first,
                            std::shared_ptr<File> second) {
    const int first_fd = add(kernel, std::move(first));
    if (first_fd < 0) {
        return {-1, -1};
    }
    const int second_fd = add(kernel, std::move(second));
    if (second_fd < 0) {
        kernel.descriptors.remove(first_fd);
        return {-1, -1};
    }
    return {first_fd, second_fd};
}

}  // namespace

Simulation::Simulation(SimulationOptions options)
    : kernel_(std::make_unique<Kernel>(std::move(options))), scope_(simulated::simulated_calls()) {
    BERTH_ASSERT(active_simulation == nullptr);
    active_simulation = this;
    active_kernel = kernel_.get();
}

Simulation::~Simulation() {
    active_simulation = nullptr;
    active_kernel = nullptr;
}

Simulation* Simulation::active() noexcept { return active_simulation; }

int Simulation::make_epoll() { return add(*kernel_, std::make_shared<EpollInstance>(*kernel_)); }

int Simulation::make_wakeup() { return add(*kernel_, std::make_shared<WakeupFile>(*kernel_)); }

std::array<int, 2> Simulation::make_pipe() {
    auto [reader, writer] = PipeEnd::make(*kernel_);
    return add_pair(*kernel_, std::move(reader), std::move(writer));
}

std::array<int, 2> Simulation::make_socket_pair(int type) {
    auto first = std::make_shared<UnixSocket>(*kernel_, type);
    auto second = std::make_shared<UnixSocket>(*kernel_, type);
    UnixSocket::join(*first, *second);
    return add_pair(*kernel_, std::move(first), std::move(second));
}

int Simulation::make_file(std::string_view contents) {
    const auto bytes = std::as_bytes(std::span(contents));
    return add(*kernel_,
               std::make_shared<RegularFile>(*kernel_, Bytes(bytes.begin(), bytes.end())));
}

std::string Simulation::file_contents(int fd) const {
    const std::shared_ptr<File> file = kernel_->descriptors.find(fd);
    const auto* regular = dynamic_cast<const RegularFile*>(file.get());
    BERTH_ASSERT(regular != nullptr);
    const Bytes& bytes = regular->contents();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int Simulation::unlink(const std::string& path) {
    const int error = kernel_->unix_names.unlink(path);
    if (error != 0) {
        errno = -error;
        return -1;
    }
    return 0;
}

Simulation::Nanoseconds Simulation::now() const noexcept { return kernel_->clock.now(); }

void Simulation::advance(Nanoseconds duration) {
    kernel_->clock.run_until(kernel_->clock.now() + duration);
}

void Simulation::step_wall_clock(Nanoseconds by) noexcept { kernel_->clock.step_wall_clock(by); }

void Simulation::set_latency(Nanoseconds one_way) noexcept { kernel_->latency = one_way; }

void Simulation::set_route(const Address& host, Route route) { kernel_->routes.set(host, route); }

void Simulation::break_connection(int fd, int error) {
    const std::shared_ptr<File> file = kernel_->descriptors.find(fd);
    BERTH_ASSERT(file != nullptr);
    file->break_connection(error);
    kernel_->clock.run_due();
}

FaultSchedule& Simulation::faults() noexcept { return kernel_->faults; }

const CallCounts& Simulation::counts() const noexcept { return kernel_->counts; }

void Simulation::reset_counts() noexcept { kernel_->counts = {}; }

std::size_t Simulation::open_descriptor_count() const noexcept {
    return kernel_->descriptors.open_count();
}

std::string Simulation::open_descriptors() const {
    std::string text;
    for (const int fd : kernel_->descriptors.list()) {
        text += std::to_string(fd) + ": " + kernel_->descriptors.find(fd)->describe() + '\n';
    }
    return text;
}

std::size_t Simulation::buffered_size() const noexcept { return kernel_->memory.used(); }

std::uint64_t Simulation::broken_pipe_count() const noexcept { return kernel_->broken_pipe_count; }

std::string Simulation::trace() const { return kernel_->trace.text(); }

}  // namespace berth::internal
