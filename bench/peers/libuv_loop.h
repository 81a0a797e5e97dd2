// SPDX-License-Identifier: Apache-2.0
#pragma once

// libuv as it is fastest: one receive buffer for all streams (it asks for one just before it
// reads), and uv_try_write() first, because each uv_write() costs an epoll_ctl().

#include "bench/programs/program.h"

#include <uv.h>

#include <memory>
#include <optional>

namespace berth::bench::libuv {

/// A uv_loop_t and why it was stopped. Destroying it closes the handles that are still open, so
/// these must outlive it.
class Loop {
public:
    static Result<Loop> open();

    uv_loop_t* get() const noexcept { return loop_.get(); }

    /// Until no handle is open, or until stop() or fail() in a callback.
    Result<void> run();
    void stop() noexcept { ::uv_stop(get()); }
    /// `code` is one of libuv's errors, a negative errno.
    void fail(const char* operation, int code) noexcept {
        failure_ = Error::from_errno(-code, operation);
        stop();
    }

private:
    struct Close {
        void operator()(uv_loop_t* loop) const noexcept;
    };
    explicit Loop(uv_loop_t* loop) noexcept : loop_(loop) {}

    std::unique_ptr<uv_loop_t, Close> loop_;
    std::optional<Error> failure_;
};

// libuv's handles begin alike, as base classes would.
template <class Handle>
uv_handle_t* as_handle(Handle* handle) noexcept {
    return reinterpret_cast<uv_handle_t*>(handle);
}
inline uv_stream_t* as_stream(uv_tcp_t* socket) noexcept {
    return reinterpret_cast<uv_stream_t*>(socket);
}

inline uv_buf_t buffer_of(std::span<std::byte> bytes) noexcept {
    return ::uv_buf_init(reinterpret_cast<char*>(bytes.data()),
                         static_cast<unsigned>(bytes.size()));
}
/// The first `size` bytes of what libuv has read into.
inline std::span<const std::byte> bytes_of(const uv_buf_t& buffer, ssize_t size) noexcept {
    return std::as_bytes(std::span(buffer.base, static_cast<std::size_t>(size)));
}

/// Of a libuv call.
inline Result<void> check(const char* operation, int code) {
    return code < 0 ? Result<void>(std::unexpected(Error::from_errno(-code, operation)))
                    : Result<void>{};
}

Result<void> transfer(TransferJob& job);
Result<void> echo(EchoJob& job);
Result<void> churn(ChurnJob& job);
Result<void> datagrams(DatagramsJob& job);
Result<void> wake(WakeJob& job);

}  // namespace berth::bench::libuv
