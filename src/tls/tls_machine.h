// SPDX-License-Identifier: Apache-2.0
#pragma once

// One TLS session without a socket. The driver moves bytes, the machine turns them over:
//
//     received ──feed_ciphertext──▶ ┌─────────┐ ──read_plaintext──▶ to the user
//                                   │ machine │
//     to be sent ◀──gather/consume─ └─────────┘ ◀─write_plaintext── from the user
//
// Received memory is lent: OpenSSL copies from it straight into the record that it decrypts in
// place. It stays valid until unread_ciphertext() is 0; nothing is received ahead of that, which
// is the backpressure. Ciphertext to send lies in page-aligned chunks that do not move while more
// is written behind them, so that a gathered send may be in flight meanwhile.
//
// How to drive it. After every call send what has_output() says, also after an error: that is the
// alert for the peer. When needs_input(), receive and feed; when the transport ends,
// end_of_input(). Who does not read for a long while calls advance() after feeding, so that what
// changes the session (a key update, a ticket) or ends it (an alert) is seen.
//
//     handshake ──▶ is_handshake_done ──▶ is_read_closed (the peer's close_notify)
//         │                  │            is_write_closed (ours: shutdown())
//         └──────────────────┴──────────▶ failure(): every call repeats it from then on
//
// Only plaintext whose record is complete and authentic is ever returned. Limits: plaintext is cut
// into records of `record_limit` bytes; write_plaintext() takes no more once `pending_limit` bytes
// of ciphertext wait to be sent; a peer that makes the machine answer without taking the answers
// ends the session at CipherQueue::kCapacity. After `records_per_key` records a TLS 1.3 key is
// changed (RFC 8446, 5.5).
//
// After its creation a machine allocates nothing itself but chunks from the pool (and a ticket's
// frame); OpenSSL allocates its record buffers when they are used and frees them when idle. One
// thread at a time.

#include "src/tls/memory_bio.h"
#include "src/tls/openssl_handles.h"
#include "src/tls/session_notes.h"

#include <berth/tls.h>

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace berth::internal {

struct TlsLimits {
    std::size_t pending_limit = 64 * 1024;                    ///< 1 .. 128 KiB, bytes.
    std::size_t record_limit = 16 * 1024;                     ///< 1 .. 16 KiB, bytes of plaintext.
    std::uint64_t records_per_key = std::uint64_t{1} << 24U;  ///< 2^24.5 is AES-GCM's limit.
};

/// What a client connects to.
struct TlsTarget {
    /// A DNS name in ASCII or an IP address; sent as SNI when it is a name. May be empty unless
    /// the context's verification is full.
    std::string_view host = {};
    TlsSessionTicket ticket = {};
};

class TlsMachine {
public:
    /// The pool outlives the machine. The first flight is in the output.
    /// **Errors:** invalid_argument (host, a context for the other side), out_of_memory.
    static Result<std::unique_ptr<TlsMachine>> client(const TlsContext& context,
                                                      CipherChunkPool& pool, TlsTarget target,
                                                      const TlsLimits& limits = {});
    static Result<std::unique_ptr<TlsMachine>> server(const TlsContext& context,
                                                      CipherChunkPool& pool,
                                                      const TlsLimits& limits = {});
    TlsMachine(const TlsMachine&) = delete;
    TlsMachine& operator=(const TlsMachine&) = delete;
    ~TlsMachine();

    /// Lends received bytes and goes on with the handshake. Only when unread_ciphertext() is 0.
    Result<void> feed_ciphertext(std::span<const std::byte> received) noexcept;
    /// How many of the lent bytes, at their end, are still needed.
    std::size_t unread_ciphertext() const noexcept { return channel_.input.size(); }
    /// The transport has ended. Plaintext that has arrived can still be read; what follows it is
    /// the clean end, or Errc::truncated.
    Result<void> end_of_input() noexcept;
    /// Works on what was fed as far as it goes without a reader: up to the next plaintext.
    Result<void> advance() noexcept;

    /// The bytes written to `plaintext`. 0 (of a non-empty span): needs_input(), or
    /// is_read_closed().
    Result<std::size_t> read_plaintext(std::span<std::byte> plaintext) noexcept;
    /// The bytes taken, possibly 0: the handshake is not done, or the output is at its limit.
    Result<std::size_t> write_plaintext(std::span<const std::byte> plaintext) noexcept;
    /// Says close_notify, once; no plaintext is taken after it, reading goes on. Before the end of
    /// the handshake it only ends the writing.
    Result<void> shutdown() noexcept;

    bool has_output() const noexcept { return !channel_.output.is_empty(); }
    std::size_t pending_ciphertext() const noexcept { return channel_.output.size(); }
    /// Pieces for one gathered send, in order; returns how many. Valid until consumed.
    std::size_t gather_ciphertext(std::span<iovec> pieces) const noexcept {
        return channel_.output.gather(pieces);
    }
    void consume_ciphertext(std::size_t size) noexcept { channel_.output.consume(size); }

    bool is_handshake_done() const noexcept { return is_handshake_done_; }
    /// Nothing goes on until more is fed.
    bool needs_input() const noexcept {
        return is_starved_ && channel_.input.empty() && !is_read_closed_ && !has_input_ended_ &&
               !failure_;
    }
    /// Decrypted bytes wait for read_plaintext(). False says nothing about what was only fed.
    bool has_plaintext() const noexcept { return SSL_pending(ssl_.get()) > 0; }
    bool can_write() const noexcept {
        return is_handshake_done_ && !is_write_closed_ && !failure_ &&
               channel_.output.size() < limits_.pending_limit;
    }
    /// The peer has said close_notify, and all plaintext before it was read.
    bool is_read_closed() const noexcept { return is_read_closed_; }
    bool is_write_closed() const noexcept { return is_write_closed_; }
    const std::optional<Error>& failure() const noexcept { return failure_; }
    /// The failure in full, where Error's subject is cut short. Allocates.
    std::string explain_failure() const;

    /// These are known when the handshake is done. Views live as long as the machine.
    TlsVersion version() const noexcept;
    std::string_view cipher() const noexcept { return SSL_get_cipher_name(ssl_.get()); }
    /// Empty: none was agreed.
    std::string_view alpn() const noexcept;
    bool was_resumed() const noexcept { return SSL_session_reused(ssl_.get()) == 1; }
    /// "CN=host.example,O=..." (RFC 2253), empty without a certificate. Allocates.
    std::string peer_certificate_subject() const;
    /// The host that the client asks for (SNI); empty when it names none, or what is no host. On a
    /// client, its target.
    std::string_view server_name() const noexcept;

    /// On a client: the latest ticket that was not taken yet. TLS 1.3 servers send theirs after
    /// the handshake, so ask again when something was read, and best at the end.
    bool has_session_ticket() const noexcept { return notes_.ticket_count > 0; }
    std::optional<TlsSessionTicket> take_session_ticket();

private:
    enum class Step : std::uint8_t { done, starved, closed, failed };

    TlsMachine(std::shared_ptr<const TlsContextState> context, CipherChunkPool& pool,
               const TlsLimits& limits) noexcept;
    static Result<std::unique_ptr<TlsMachine>> make(const TlsContext& context,
                                                    CipherChunkPool& pool, const TlsLimits& limits);

    Result<void> aim_at(std::string_view host);
    void resume(TlsSessionTicket ticket) noexcept;

    const char* operation() const noexcept;
    Step judge(int answer, const char* operation) noexcept;
    void shake_hands() noexcept;
    void finish_handshake() noexcept;
    void fail(const Error& error) noexcept;
    Error openssl_failure(const char* operation) const noexcept;
    Step starve(const char* operation) noexcept;
    Step end_early(const char* operation) noexcept;
    bool has_something_to_read() const noexcept;
    Result<void> status() const noexcept;
    bool change_key_when_due() noexcept;

    std::shared_ptr<const TlsContextState> context_;
    TlsLimits limits_;
    std::string host_;
    MemoryChannel channel_;
    SessionNotes notes_;
    SslHandle ssl_;  // points to channel_ and notes_
    std::uint64_t records_written_ = 0;
    std::optional<Error> failure_;
    bool is_handshake_done_ = false;
    bool is_starved_ = false;  // OpenSSL asked for more than there was
    bool has_input_ended_ = false;
    bool is_read_closed_ = false;
    bool is_write_closed_ = false;
};

}  // namespace berth::internal
