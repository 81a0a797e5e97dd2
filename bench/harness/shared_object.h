// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/error.h>

#include <sys/mman.h>
#include <cerrno>

#include <new>
#include <utility>

namespace berth::bench {

/// One T in anonymous memory that forked processes share. It is never destroyed, only unmapped.
template <class T>
class SharedObject {
public:
    static Result<SharedObject> create() {
        void* const memory =
            ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            return std::unexpected(Error::from_errno(errno, "map", "shared memory"));
        }
        return SharedObject(::new (memory) T);
    }
    SharedObject(SharedObject&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    SharedObject& operator=(SharedObject&&) = delete;
    ~SharedObject() {
        if (object_ != nullptr) {
            ::munmap(object_, sizeof(T));
        }
    }

    T* get() const noexcept { return object_; }
    T* operator->() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }

private:
    explicit SharedObject(T* object) noexcept : object_(object) {}

    T* object_;
};

}  // namespace berth::bench
