// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/file.h"
#include "src/engine/simulation/socket_options.h"

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace berth::internal::simulated {

class Socket;

/// A socket and its peer's name, or minus errno.
struct Accepted {
    std::shared_ptr<Socket> socket;
    int error = 0;
    SocketName peer{};
};

/// What a message costs a buffer beside its bytes, as the kernel's book-keeping does.
inline constexpr std::size_t kMessageOverhead = 576;

inline constexpr unsigned kShutRead = 1;
inline constexpr unsigned kShutWrite = 2;
inline constexpr unsigned kShutBoth = 3;

/// What is common to all sockets: the calls, the error, what is shut, the options of SOL_SOCKET.
class Socket : public File {
public:
    struct Kind {
        int domain;
        int type;
        int protocol;
    };

    Socket(Kernel& kernel, Kind kind);

    virtual int bind(const sockaddr* address, socklen_t size) = 0;
    virtual int connect(const sockaddr* address, socklen_t size) = 0;
    virtual int listen(int /*backlog*/) { return -EOPNOTSUPP; }
    virtual Accepted accept() { return {nullptr, -EOPNOTSUPP}; }
    virtual int shutdown(int how) = 0;
    virtual ssize_t send(Outgoing& outgoing) = 0;
    virtual ssize_t receive(Incoming& incoming) = 0;
    virtual SocketName local_name() const = 0;
    /// Nothing: not connected.
    virtual std::optional<SocketName> peer_name() const = 0;

    /// The next call shall find this error, as the kernel does it when a call had half succeeded.
    void leave_error(int error) noexcept { error_ = error; }

    virtual bool is_listening() const { return false; }
    int get_option(int level, int name, void* value, socklen_t* size);
    int set_option(int level, int name, std::span<const std::byte> value);

    ssize_t read(Incoming& incoming) override { return receive(incoming); }
    ssize_t write(Outgoing& outgoing) override { return send(outgoing); }
    bool is_byte_stream() const override { return kind_.type == SOCK_STREAM; }

protected:
    /// SO_ERROR, which asking for it clears.
    int take_error() noexcept { return std::exchange(error_, 0); }
    bool is_shut(unsigned sides) const noexcept { return (shut_ & sides) == sides; }
    /// -EPIPE; counts what would have been a SIGPIPE.
    int broken_pipe(int flags) noexcept;

    /// Options of the protocol; nothing when there is no such. The setter answers 0 or minus errno.
    virtual std::optional<int> get_own_option(int /*level*/, int /*name*/) { return {}; }
    virtual std::optional<int> set_own_option(int /*level*/, int /*name*/, int /*value*/) {
        return {};
    }
    /// A clone has the options of its listener.
    void copy_options(const Socket& from);

    Kind kind_;
    int error_ = 0;
    unsigned shut_ = 0;  // kShutRead | kShutWrite
    // As getsockopt() shows them: twice what was asked for.
    int send_buffer_;
    int receive_buffer_;
    linger linger_{};

private:
    bool has_level(int level) const noexcept;
    std::optional<int> get_number(int level, int name);
    int set_number(int level, int name, int value);
    int set_buffer(int& buffer, int asked, int least) const;

    InertOptions inert_options_;
    timeval receive_timeout_{};
    timeval send_timeout_{};
    std::uint64_t cookie_;
};

}  // namespace berth::internal::simulated
