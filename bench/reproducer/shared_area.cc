// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/shared_area.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace berth::bench {
namespace {

constexpr std::size_t kWorkersOffset = 4'096;

}  // namespace

std::size_t SharedArea::size_for(unsigned worker_count) noexcept {
    return kWorkersOffset + worker_count * sizeof(WorkerCounters);
}

Result<SharedArea> SharedArea::create(unsigned worker_count) {
    Descriptor memory(::memfd_create("berth-bench", MFD_CLOEXEC));
    if (!memory.is_open() ||
        ::ftruncate(memory.get(), static_cast<off_t>(size_for(worker_count))) != 0) {
        return std::unexpected(Error::from_errno(errno, "make", "the workers' counters"));
    }
    SharedArea area = BERTH_TRY(attach(memory.get(), worker_count));
    area.memory_ = std::move(memory);
    ::new (area.control_) Control;
    std::uninitialized_default_construct_n(area.workers_, worker_count);
    return area;
}

Result<SharedArea> SharedArea::attach(int memory, unsigned worker_count) {
    void* address =
        ::mmap(nullptr, size_for(worker_count), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (address == MAP_FAILED) {
        return std::unexpected(Error::from_errno(errno, "map", "the workers' counters"));
    }
    return SharedArea(address, Descriptor(), worker_count);
}

SharedArea::SharedArea(void* memory, Descriptor descriptor, unsigned worker_count) noexcept
    : memory_(std::move(descriptor)),
      control_(static_cast<Control*>(memory)),
      workers_(reinterpret_cast<WorkerCounters*>(static_cast<std::byte*>(memory) + kWorkersOffset)),
      worker_count_(worker_count) {
    static_assert(sizeof(Control) <= kWorkersOffset);
}

SharedArea::SharedArea(SharedArea&& other) noexcept
    : memory_(std::move(other.memory_)),
      control_(std::exchange(other.control_, nullptr)),
      workers_(other.workers_),
      worker_count_(other.worker_count_) {}

SharedArea::~SharedArea() {
    if (control_ != nullptr) {
        ::munmap(control_, size_for(worker_count_));
    }
}

std::span<WorkerCounters> SharedArea::workers() const noexcept { return {workers_, worker_count_}; }

void SharedArea::fail(const Error& error) noexcept {
    if (!control_->is_failing.exchange(true, std::memory_order_acq_rel)) {
        std::memcpy(control_->error.data(), &error, sizeof(error));
        control_->has_failed.store(true, std::memory_order_release);
    }
}

std::optional<Error> SharedArea::error() const noexcept {
    if (!control_->has_failed.load(std::memory_order_acquire)) {
        return std::nullopt;
    }
    Error error(Errc::system, "");
    std::memcpy(&error, control_->error.data(), sizeof(error));
    return error;
}

}  // namespace berth::bench
