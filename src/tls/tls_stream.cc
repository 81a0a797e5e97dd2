// SPDX-License-Identifier: Apache-2.0
#include <berth/tls_stream.h>

#include "src/tls/cipher_queue.h"
#include "src/tls/tls_machine.h"

#include <array>
#include <utility>

namespace berth {

using internal::CipherChunkPool;
using internal::TlsMachine;
using internal::TlsSession;
using internal::TlsTarget;

/// The pool goes after the last machine that uses it, and so perhaps after its thread.
struct internal::TlsSession {
    std::shared_ptr<CipherChunkPool> pool;
    std::unique_ptr<TlsMachine> machine;
};

namespace {

// Streams belong to their loop's thread, so those of a thread can share.
const std::shared_ptr<CipherChunkPool>& chunk_pool() {
    static thread_local const auto pool = std::make_shared<CipherChunkPool>();
    return pool;
}

Result<std::unique_ptr<TlsSession>> client(const TlsContext& context, TlsTarget target) {
    const auto& pool = chunk_pool();
    auto machine = BERTH_TRY(TlsMachine::client(context, *pool, std::move(target)));
    return std::make_unique<TlsSession>(TlsSession{pool, std::move(machine)});
}

Result<std::unique_ptr<TlsSession>> server(const TlsContext& context) {
    const auto& pool = chunk_pool();
    auto machine = BERTH_TRY(TlsMachine::server(context, *pool));
    return std::make_unique<TlsSession>(TlsSession{pool, std::move(machine)});
}

}  // namespace

TlsStream::TlsStream(Stream stream, std::unique_ptr<TlsSession> session) noexcept
    : stream_(std::move(stream)), session_(std::move(session)) {}

TlsStream::TlsStream(TlsStream&&) noexcept = default;
TlsStream& TlsStream::operator=(TlsStream&&) noexcept = default;
TlsStream::~TlsStream() = default;

Task<Result<TlsStream>> TlsStream::connect(Stream stream, const TlsContext& context,
                                           TlsTargetOptions target, Deadline deadline) {
    return shake_hands(std::move(stream), client(context, {.host = target.host}), deadline);
}

Task<Result<TlsStream>> TlsStream::resume(Stream stream, const TlsContext& context,
                                          TlsTargetOptions target, TlsSessionTicket ticket,
                                          Deadline deadline) {
    return shake_hands(std::move(stream),
                       client(context, {.host = target.host, .ticket = std::move(ticket)}),
                       deadline);
}

Task<Result<TlsStream>> TlsStream::accept(Stream stream, const TlsContext& context,
                                          Deadline deadline) {
    return shake_hands(std::move(stream), server(context), deadline);
}

Task<Result<TlsStream>> TlsStream::shake_hands(Stream stream,
                                               Result<std::unique_ptr<TlsSession>> session,
                                               Deadline deadline) {
    if (!session) {
        co_return std::unexpected(session.error());
    }
    TlsStream secure(std::move(stream), std::move(*session));
    deadline = secure.stream_.fixed(deadline);
    Result<void> outcome = secure.flush();
    while (outcome && !secure.machine().is_handshake_done()) {
        outcome = co_await secure.feed(deadline);
    }
    if (!outcome) {
        co_return std::unexpected(outcome.error());
    }
    co_return std::move(secure);
}

TlsMachine& TlsStream::machine() noexcept { return *session_->machine; }
const TlsMachine& TlsStream::machine() const noexcept { return *session_->machine; }

// Whatever the machine has to say goes into the stream's queue, also an alert after an error.
Result<void> TlsStream::flush() {
    std::array<iovec, 8> pieces;
    while (machine().has_output()) {
        const std::size_t count = machine().gather_ciphertext(pieces);
        std::size_t size = 0;
        for (const iovec& piece : std::span(pieces).first(count)) {
            BERTH_TRY(stream_.write(
                std::span(static_cast<const std::byte*>(piece.iov_base), piece.iov_len)));
            size += piece.iov_len;
        }
        machine().consume_ciphertext(size);
    }
    return {};
}

// Gives the machine what comes next, or tells it that nothing does.
Task<Result<void>> TlsStream::feed(Deadline deadline) {
    if (machine().unread_ciphertext() > 0) {
        co_return machine().advance();
    }
    received_ = co_await stream_.receive(deadline);
    if (received_.is_error()) {
        co_return std::unexpected(received_.error());
    }
    const Result<void> fed =
        received_ ? machine().feed_ciphertext(received_.bytes()) : machine().end_of_input();
    const Result<void> flushed = flush();
    if (machine().unread_ciphertext() == 0) {
        received_.give_back();
    }
    co_return fed ? flushed : fed;
}

Task<Result<std::size_t>> TlsStream::receive_into(std::span<std::byte> buffer, Deadline deadline) {
    deadline = stream_.fixed(deadline);
    for (;;) {
        const Result<std::size_t> count = machine().read_plaintext(buffer);
        if (machine().unread_ciphertext() == 0) {
            received_.give_back();
        }
        const Result<void> flushed = flush();
        if (!count || *count > 0 || buffer.empty() || machine().is_read_closed()) {
            co_return count;
        }
        if (!flushed) {
            co_return std::unexpected(flushed.error());
        }
        const Result<void> fed = co_await feed(deadline);
        if (!fed) {
            co_return std::unexpected(fed.error());
        }
    }
}

Task<Result<void>> TlsStream::send(std::span<const std::byte> bytes, Deadline deadline) {
    deadline = stream_.fixed(deadline);
    while (!bytes.empty()) {
        const Result<std::size_t> taken = machine().write_plaintext(bytes);
        const Result<void> flushed = flush();
        if (!taken) {
            co_return std::unexpected(taken.error());
        }
        if (!flushed) {
            co_return flushed;
        }
        bytes = bytes.subspan(*taken);
        const Result<void> room = co_await stream_.room(deadline);
        if (!room) {
            co_return room;
        }
    }
    co_return {};
}

Result<void> TlsStream::shut_down_write() {
    BERTH_TRY(machine().shutdown());
    return flush();
}

void TlsStream::close() noexcept { stream_.close(); }

TlsVersion TlsStream::version() const noexcept { return machine().version(); }
std::string_view TlsStream::alpn() const noexcept { return machine().alpn(); }
std::string_view TlsStream::cipher() const noexcept { return machine().cipher(); }
std::string_view TlsStream::server_name() const noexcept { return machine().server_name(); }
bool TlsStream::was_resumed() const noexcept { return machine().was_resumed(); }

std::string TlsStream::peer_certificate_subject() const {
    return machine().peer_certificate_subject();
}

std::optional<TlsSessionTicket> TlsStream::take_session_ticket() {
    return machine().take_session_ticket();
}

}  // namespace berth
