// SPDX-License-Identifier: Apache-2.0
#include <berth/stream.h>

#include <berth/task_promise.h>

#include "src/base/system_calls.h"
#include "src/net/socket_setup.h"
#include "src/net/write_queue.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <new>
#include <utility>

namespace berth {

namespace internal {

/// What a stream knows until it is connected.
struct Unconnected {
    NewSocket socket;
    Endpoint remote;
};

}  // namespace internal

namespace {

using internal::DescriptorKind;
using internal::Detach;
using internal::LoopState;
using internal::NewSocket;
using internal::WriteQueue;

constexpr int kNotOpen = -1;

Error closed_error(const char* operation) {
    return {Errc::closed, operation, "stream", 0, "it is not open"};
}

// An address alone takes no port: connect() finds one that suits the destination.
Result<Port> bind_before_connect(NewSocket& socket, const Endpoint& local, PortTable* ports) {
    if (socket.internet.is_open() && local.address().port() == 0) {
        BERTH_TRY(socket.internet.set_bind_address_no_port(true));
    }
    return internal::bind_socket(socket, local, ports);
}

// Fits a result that was there before the engine was asked.
Start done(LoopState* loop, Operation& operation, int result) {
    if (operation.always_completes && loop != nullptr) {
        loop->complete_later(operation, result);
        return Start::pending;
    }
    operation.result = result;
    return Start::done;
}

auto fill_send_file(int file, std::int64_t offset, std::size_t size) {
    return [=](SendFileOperation& send) {
        send.file = file;
        send.offset = offset;
        send.size = size;
        send.sent = 0;
    };
}

auto fill_splice(int pipe, std::size_t size, bool into_socket) {
    return [=](SpliceOperation& splice) {
        splice.pipe = pipe;
        splice.size = size;
        splice.into_socket = into_socket;
    };
}

int errno_of(const Error& error) {
    if (error.system_errno() != 0) {
        return error.system_errno();
    }
    return error.code() == Errc::ports_exhausted ? EADDRNOTAVAIL : EIO;
}

}  // namespace

Stream::Stream() noexcept = default;

Stream::Stream(internal::LoopState* loop, internal::SlotHandle slot, int fd) noexcept
    : loop_(loop), slot_(slot), fd_(fd) {}

Result<Stream> Stream::adopt(Loop& loop, Descriptor socket) {
    BERTH_TRY(internal::check_socket_type(socket.get(), SOCK_STREAM, "stream socket"));
    const int family =
        BERTH_TRY(internal::adopted_option(socket.get(), SO_DOMAIN, "stream socket"));
    LoopState& state = loop.state();
    const internal::SlotHandle slot =
        BERTH_TRY(state.attach(socket.get(), internal::stream_kind(family == AF_UNIX)));
    return Stream(&state, slot, socket.release());
}

Result<Stream> Stream::open(Loop& loop, const Endpoint& remote, const ConnectOptions& options) {
    LoopState& state = loop.state();
    PortTable* ports = state.options().tcp_ports;
    // The table connects by itself, before the engine knows the socket: that must not wait.
    const bool is_nonblocking = state.socket_mode() != 0 || (ports != nullptr && !remote.is_unix());
    auto unconnected = std::make_unique<internal::Unconnected>();
    unconnected->socket = BERTH_TRY(internal::open_socket(remote, Protocol::tcp, is_nonblocking));
    unconnected->remote = remote;
    NewSocket& socket = unconnected->socket;
    if (options.no_delay && !remote.is_unix()) {
        BERTH_TRY(internal::set_option(socket.fd(), IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
    }
    Stream stream(&state, {}, socket.fd());
    if (options.local) {
        stream.port_ = BERTH_TRY(bind_before_connect(socket, *options.local, ports));
    }
    stream.unconnected_ = std::move(unconnected);
    return stream;
}

Stream::Stream(Stream&& other) noexcept { take_over(other); }

Stream& Stream::operator=(Stream&& other) noexcept {
    if (this != &other) {
        close();
        take_over(other);
    }
    return *this;
}

Stream::~Stream() { close(); }

void Stream::take_over(Stream& other) noexcept {
    loop_ = other.loop_;
    slot_ = std::exchange(other.slot_, {});
    fd_ = std::exchange(other.fd_, -1);
    queue_ = std::exchange(other.queue_, nullptr);
    if (queue_ != nullptr) {
        queue_->set_holder(&queue_);
    }
    port_ = std::move(other.port_);
    unconnected_ = std::move(other.unconnected_);
}

Result<Endpoint> Stream::local_endpoint() const { return internal::local_endpoint_of(fd_); }
Result<Endpoint> Stream::remote_endpoint() const { return internal::remote_endpoint_of(fd_); }

Result<void> Stream::set_no_delay(bool on) {
    return internal::set_option(fd_, IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0, "TCP_NODELAY");
}

Result<void> Stream::set_keep_alive(bool on) {
    return internal::set_option(fd_, SOL_SOCKET, SO_KEEPALIVE, on ? 1 : 0, "SO_KEEPALIVE");
}

Deadline Stream::fixed(Deadline deadline) const noexcept {
    return is_open() && !deadline.is_never() ? deadline.fixed(loop_->now()) : deadline;
}

Start Stream::connect(ConnectOperation& operation, Deadline deadline) {
    operation.port_error.reset();
    operation.has_started = false;
    if (unconnected_ == nullptr) {
        return done(loop_, operation, is_open() ? -EISCONN : -EBADF);
    }
    const std::unique_ptr<internal::Unconnected> unconnected = std::move(unconnected_);
    operation.remote = unconnected->remote;
    NewSocket& socket = unconnected->socket;
    PortTable* ports = loop_->options().tcp_ports;
    const bool chooses_port = ports != nullptr && socket.internet.is_open() && !port_;
    bool is_connected = false;
    if (chooses_port) {
        Result<Port> port = ports->connect(socket.internet, operation.remote.address());
        if (!port) {
            operation.port_error = port.error();
            fd_ = -1;
            return done(loop_, operation, -errno_of(port.error()));
        }
        operation.has_started = true;
        is_connected = !port->is_connecting();
        port_ = std::move(*port);
    }
    // An io_uring changes the mode of what a table has connected.
    const bool has_own_mode = loop_->socket_mode() != 0 || !chooses_port;
    const DescriptorKind kind = internal::stream_kind(operation.remote.is_unix());
    const Result<internal::SlotHandle> slot =
        has_own_mode ? loop_->attach_own(socket.fd(), kind) : loop_->attach(socket.fd(), kind);
    if (!slot) {
        fd_ = -1;
        return done(loop_, operation, -errno_of(slot.error()));
    }
    slot_ = *slot;
    socket.release().release();
    return is_connected ? done(loop_, operation, 0)
                        : internal::submit(loop_, operation, slot_, deadline);
}

CountAwaiter<ReceiveOperation> Stream::receive_into(std::span<std::byte> buffer,
                                                    Deadline deadline) noexcept {
    return {loop_, slot_, deadline, [buffer](auto& receive) { receive.buffer = buffer; }};
}

CountAwaiter<ReceiveOperation> Stream::receive_into(std::span<const iovec> parts,
                                                    Deadline deadline) noexcept {
    return {loop_, slot_, deadline, [parts](auto& receive) { receive.parts = parts; }};
}

CountAwaiter<SendOperation> Stream::send(std::span<const std::byte> bytes,
                                         Deadline deadline) noexcept {
    return {loop_, slot_, deadline, [bytes](auto& send) { send.set(bytes); }};
}

CountAwaiter<SendOperation> Stream::send(std::span<const iovec> parts, Deadline deadline) noexcept {
    return {loop_, slot_, deadline, [parts](auto& send) { send.parts = parts; }};
}

Start Stream::send_file(SendFileOperation& operation, int file, std::int64_t offset,
                        std::size_t size, Deadline deadline) noexcept {
    fill_send_file(file, offset, size)(operation);
    return internal::submit(loop_, operation, slot_, deadline);
}

CountAwaiter<SendFileOperation> Stream::send_file(int file, std::int64_t offset, std::size_t size,
                                                  Deadline deadline) noexcept {
    return {loop_, slot_, deadline, fill_send_file(file, offset, size)};
}

Start Stream::splice_to(SpliceOperation& operation, int pipe, std::size_t size,
                        Deadline deadline) noexcept {
    fill_splice(pipe, size, false)(operation);
    return internal::submit(loop_, operation, slot_, deadline);
}

Start Stream::splice_from(SpliceOperation& operation, int pipe, std::size_t size,
                          Deadline deadline) noexcept {
    fill_splice(pipe, size, true)(operation);
    return internal::submit(loop_, operation, slot_, deadline);
}

CountAwaiter<SpliceOperation> Stream::splice_to(int pipe, std::size_t size,
                                                Deadline deadline) noexcept {
    return {loop_, slot_, deadline, fill_splice(pipe, size, false)};
}

CountAwaiter<SpliceOperation> Stream::splice_from(int pipe, std::size_t size,
                                                  Deadline deadline) noexcept {
    return {loop_, slot_, deadline, fill_splice(pipe, size, true)};
}

Result<void> Stream::make_queue() {
    if (queue_ != nullptr) {
        return {};
    }
    if (!slot_.is_valid()) {
        return std::unexpected(closed_error("write"));
    }
    queue_ = WriteQueue::take(*loop_, slot_, &queue_);
    if (queue_ == nullptr) {
        return std::unexpected(Error::from_errno(ENOMEM, "write", "stream"));
    }
    return {};
}

// What the kernel takes at once needs no queue.
Result<void> Stream::write(Lent bytes) {
    const std::size_t sent = BERTH_TRY(send_now(bytes.bytes()));
    if (sent == bytes.size()) {
        return {};
    }
    bytes.remove_prefix(sent);
    BERTH_TRY(make_queue());
    return queue_->write(std::move(bytes));
}

Result<void> Stream::write(std::span<const std::byte> bytes) {
    const std::size_t sent = BERTH_TRY(send_now(bytes));
    if (sent == bytes.size()) {
        return {};
    }
    BERTH_TRY(make_queue());
    return queue_->write(bytes.subspan(sent));
}

// An error stays: it is that of every later write too.
Result<std::size_t> Stream::send_now(std::span<const std::byte> bytes) {
    if (bytes.empty() || !slot_.is_valid()) {
        BERTH_TRY(make_queue());
    }
    if (queue_ != nullptr && queue_->has_failed()) {
        return std::unexpected(queue_->status().error());
    }
    const int count = loop_->send_now(slot_, bytes);
    if (count >= 0) {
        return static_cast<std::size_t>(count);
    }
    if (count != -EAGAIN) {
        BERTH_TRY(make_queue());
        queue_->fail(-count);
        return std::unexpected(queue_->status().error());
    }
    return 0;
}

std::size_t Stream::queued_size() const noexcept {
    return queue_ != nullptr ? queue_->queued_size() : 0;
}

bool Stream::is_congested() const noexcept { return queue_ != nullptr && queue_->is_congested(); }

Start Stream::wait_for_room(WaitOperation& operation, Deadline deadline) noexcept {
    if (!is_congested()) {
        const int reason =
            queue_ != nullptr && !queue_->status() ? queue_->status().error().system_errno() : 0;
        return done(loop_, operation, loop_ != nullptr ? -reason : -EBADF);
    }
    queue_->wait_for_room(operation, deadline);
    return Start::pending;
}

Result<void> Stream::set_watermarks(Watermarks watermarks) {
    if (watermarks.low > watermarks.high) {
        return std::unexpected(Error(Errc::invalid_argument, "set", "watermarks", 0,
                                     "the low one is above the high one"));
    }
    BERTH_TRY(make_queue());
    queue_->set_watermarks(watermarks);
    return {};
}

Result<void> Stream::set_linger(std::chrono::nanoseconds linger) {
    BERTH_TRY(make_queue());
    queue_->set_linger(linger);
    return {};
}

Result<void> Stream::shut_down_write() {
    BERTH_TRY(make_queue());
    return queue_->shut_down_write(fd_);
}

void Stream::forget() noexcept {
    fd_ = -1;
    slot_ = {};
    queue_ = nullptr;
    unconnected_.reset();
}

Start Stream::close_with(CloseOperation* operation) noexcept {
    Start start = Start::pending;
    if (queue_ != nullptr) {
        queue_->close(fd_, std::move(port_), operation);
    } else if (slot_.is_valid()) {
        loop_->detach(slot_, Detach::close, operation);
        port_.release();
    } else if (operation != nullptr && loop_ != nullptr) {
        loop_->complete_later(*operation, 0);
    } else {
        start = Start::done;
        if (operation != nullptr) operation->result = 0;
    }
    forget();
    port_.release();
    return start;
}

void Stream::close() noexcept { close_with(nullptr); }
Start Stream::close(CloseOperation& operation) noexcept { return close_with(&operation); }

void Stream::reset() noexcept {
    if (!slot_.is_valid()) {
        close();
        return;
    }
    internal::reset_when_closed(fd_);
    if (queue_ != nullptr) {
        queue_->reset(std::move(port_), nullptr, Detach::close);
    } else {
        loop_->detach(slot_, Detach::close, nullptr);
        port_.release();
    }
    forget();
}

Descriptor Stream::release() noexcept {
    Descriptor socket(slot_.is_valid() ? fd_ : -1);
    if (queue_ != nullptr) {
        queue_->reset(Port(), nullptr, Detach::keep);
    } else if (slot_.is_valid()) {
        loop_->detach(slot_, Detach::keep, nullptr);
    }
    // The port stays with whoever has the socket now.
    port_.detach();
    forget();
    return socket;
}

Descriptor Stream::release(std::vector<std::byte>& unread) {
    if (slot_.is_valid()) {
        loop_->take_unread(slot_, unread);
    }
    return release();
}

ConnectAwaiter connect(Loop& loop, const Endpoint& remote, Deadline deadline,
                       const ConnectOptions& options) {
    return {&loop.state(), Stream::open(loop, remote, options), deadline};
}

ConnectAwaiter::ConnectAwaiter(internal::LoopState* loop, Result<Stream> stream, Deadline deadline)
    : Awaiter(loop, {}, deadline), stream_(std::move(stream)) {}

bool ConnectAwaiter::await_ready() noexcept {
    if (!stream_ || is_cancelled_before()) {
        return true;
    }
    return stream_->connect(*this, deadline()) == Start::done;
}

Result<Stream> ConnectAwaiter::await_resume() noexcept {
    if (stream_ && has_failed()) {
        return std::unexpected(error());
    }
    return std::move(stream_);
}

RoomAwaiter Stream::room(Deadline deadline) noexcept { return {*this, deadline}; }

RoomAwaiter::RoomAwaiter(Stream& stream, Deadline deadline) noexcept
    : Awaiter(stream.loop_, {}, deadline), stream_(stream) {}

bool RoomAwaiter::await_ready() noexcept {
    return is_cancelled_before() || stream_.wait_for_room(*this, deadline()) == Start::done;
}

Result<void> RoomAwaiter::await_resume() const noexcept {
    if (has_failed()) {
        return std::unexpected(Error::from_errno(system_errno(), "write", "stream"));
    }
    return {};
}

WriteResult::WriteResult(const Error& error) noexcept
    : code_(error.system_errno() != 0 ? error.system_errno() : kNotOpen) {}

Error WriteResult::error() const noexcept {
    return code_ == kNotOpen ? closed_error("write") : Error::from_errno(code_, "write", "stream");
}

WriteAwaiter::WriteAwaiter(Stream& stream, const Result<void>& written, Deadline deadline) noexcept
    : stream_(stream),
      deadline_(deadline),
      written_(written ? WriteResult() : WriteResult(written.error())) {}

WriteAwaiter::~WriteAwaiter() {
    if (room_ != nullptr) {
        room_->~RoomAwaiter();
        internal::free_frame(room_, sizeof *room_);
    }
}

WriteAwaiter Stream::send(Lent&& bytes, Deadline deadline) {
    return {*this, write(std::move(bytes)), deadline};
}

bool WriteAwaiter::await_ready() noexcept {
    const bool is_cancelled = context_ != nullptr && context_->is_cancelled();
    if (!written_ || (!stream_.is_congested() && !is_cancelled)) {
        return true;
    }
    room_ = ::new (internal::allocate_frame(sizeof *room_)) RoomAwaiter(stream_, deadline_);
    room_->set_context(context_);
    return room_->await_ready();
}

// A deadline that has passed is no harm: the bytes are queued.
WriteResult WriteAwaiter::await_resume() const noexcept {
    const bool has_failed = room_ != nullptr && room_->has_failed();
    if (!written_ || !has_failed || room_->system_errno() == ETIMEDOUT) {
        return written_;
    }
    return WriteResult(Error::from_errno(room_->system_errno(), "write", "stream"));
}

}  // namespace berth
