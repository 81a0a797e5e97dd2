// SPDX-License-Identifier: Apache-2.0
#pragma once

// What OpenSSL tells by callback while it works on a session: why it rejects the peer's
// certificate, and the tickets that a server sends. Found by the session's SSL_get_app_data().

#include "src/tls/openssl_handles.h"

#include <berth/error.h>

#include <array>
#include <string>
#include <string_view>

namespace berth::internal {

/// Why a certificate does not pass.
struct CertificateRejection {
    int code = X509_V_OK;  // X509_V_ERR_*
    int depth = 0;         // 0: the peer's own certificate; else one of its chain
    /// At depth 0 the hosts that the certificate is for, else its name.
    std::array<char, 192> about_buffer{};
    std::string_view about;
    Error to_error(const char* operation, std::string_view host) const noexcept;
    /// All of it in one sentence, nothing cut short. Allocates.
    std::string explain(std::string_view host) const;
};

struct SessionNotes {
    static constexpr unsigned kTicketLimit = 4;

    CertificateRejection rejection;
    bool is_name_refused = false;  // a server has no identity for what the client asks for
    std::array<SessionHandle, kTicketLimit> tickets;  // the oldest first
    unsigned ticket_count = 0;

    void keep_ticket(SessionHandle session) noexcept;
    SessionHandle take_latest_ticket() noexcept;
};

/// For SSL_set_verify().
int note_rejection(int is_accepted, X509_STORE_CTX* store_context) noexcept;
/// For SSL_CTX_sess_set_new_cb().
int note_ticket(SSL* session, SSL_SESSION* ticket) noexcept;

}  // namespace berth::internal
