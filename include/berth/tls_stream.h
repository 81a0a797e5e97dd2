// SPDX-License-Identifier: Apache-2.0
#pragma once

// TLS over a Stream, for coroutines:
//
//     berth::Result<berth::TlsStream> secure = co_await berth::TlsStream::connect(
//         std::move(stream), context, {.host = "example.org"}, within(10s));
//
// What a peer means by its last byte is told apart: receive_into() answers 0 when it has said
// close_notify, and the error `truncated` when the connection ended without it, as it also does
// when somebody in between cuts it off.
//
// One receive and one send may be under way at a time. Ciphertext is received into memory of the
// loop and sent by owning writes, so a send that is cancelled leaves nothing half sent; what was
// taken goes out. Loop thread only. A TlsStream goes before its loop; one that goes without
// close_notify looks truncated to its peer.

#include <berth/endpoint.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/stream.h>
#include <berth/task.h>
#include <berth/tls.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace berth {

namespace internal {
class TlsMachine;
struct TlsSession;
}  // namespace internal

/// What a client connects to.
struct TlsTargetOptions {
    /// A DNS name in ASCII or an IP address: what the certificate must be for, and, when it is a
    /// name, what is asked for (SNI). Must outlive the call.
    std::string_view host = {};
};

class BERTH_API TlsStream {
public:
    /// The client's handshake. **Errors:** certificate_rejected, tls_failed, truncated, timed_out,
    /// invalid_argument (host), those of the stream.
    static Task<Result<TlsStream>> connect(Stream stream, const TlsContext& context,
                                           TlsTargetOptions target, Deadline deadline = {});
    /// The same, resuming an earlier session if the server agrees.
    static Task<Result<TlsStream>> resume(Stream stream, const TlsContext& context,
                                          TlsTargetOptions target, TlsSessionTicket ticket,
                                          Deadline deadline = {});
    /// The server's handshake. **Errors:** as above.
    static Task<Result<TlsStream>> accept(Stream stream, const TlsContext& context,
                                          Deadline deadline = {});

    TlsStream(TlsStream&&) noexcept;
    TlsStream& operator=(TlsStream&&) noexcept;
    ~TlsStream();

    /// At least one byte; 0 when the peer has said that nothing more comes. **Errors:** truncated,
    /// tls_failed, those of the stream.
    Task<Result<std::size_t>> receive_into(std::span<std::byte> buffer, Deadline deadline = {});
    /// All of them; they are read until it ends. **Errors:** closed, tls_failed, those of the
    /// stream.
    Task<Result<void>> send(std::span<const std::byte> bytes, Deadline deadline = {});
    /// Says close_notify: nothing more will be sent; receiving goes on.
    Result<void> shut_down_write();
    /// Closes the stream. What is queued goes out, within the stream's linger time.
    void close() noexcept;

    TlsVersion version() const noexcept;
    /// The protocol that was agreed (ALPN); empty for none.
    std::string_view alpn() const noexcept;
    std::string_view cipher() const noexcept;
    /// The host that the client has asked for; empty when it named none.
    std::string_view server_name() const noexcept;
    bool was_resumed() const noexcept;
    /// "CN=host.example,O=…", empty without a certificate.
    std::string peer_certificate_subject() const;
    /// On a client: the latest ticket that was not taken yet. TLS 1.3 servers send theirs after the
    /// handshake, so best asked for at the end.
    std::optional<TlsSessionTicket> take_session_ticket();

private:
    TlsStream(Stream stream, std::unique_ptr<internal::TlsSession> session) noexcept;

    static Task<Result<TlsStream>> shake_hands(
        Stream stream, Result<std::unique_ptr<internal::TlsSession>> session, Deadline deadline);
    Task<Result<void>> feed(Deadline deadline);
    Result<void> flush();
    internal::TlsMachine& machine() noexcept;
    const internal::TlsMachine& machine() const noexcept;

    Stream stream_;
    std::unique_ptr<internal::TlsSession> session_;
    Lent received_;  // what the machine reads from
};

}  // namespace berth
