// SPDX-License-Identifier: Apache-2.0
#include "src/tls/session_notes.h"

#include "src/tls/host_names.h"

#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace berth::internal {
namespace {

struct RejectionText {
    int code;
    const char* reason;
    const char* remedy;
};

constexpr const char* kAddCa =
    "add its CA by ca_file (a server: client_ca_file), or have the peer send its whole chain";
constexpr const char* kCheckClock = "check this host's clock";

constexpr RejectionText kRejectionTexts[] = {
    {X509_V_ERR_CERT_HAS_EXPIRED, "certificate has expired",
     "the peer must renew it; or check this host's clock"},
    {X509_V_ERR_CERT_NOT_YET_VALID, "certificate is not yet valid", kCheckClock},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "self-signed certificate",
     "if it is the right one, add it by ca_file (a server: client_ca_file)"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, "its chain ends at a CA that is not trusted",
     "add that CA by ca_file (a server: client_ca_file)"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, "unknown issuer", kAddCa},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, "unknown issuer", kAddCa},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, "unknown issuer", kAddCa},
    {X509_V_ERR_HOSTNAME_MISMATCH, "certificate is for another host",
     "connect by a name that it is for"},
    {X509_V_ERR_IP_ADDRESS_MISMATCH, "certificate is for another address",
     "connect by a name that it is for"},
};

RejectionText text_of(int code) noexcept {
    for (const RejectionText& text : kRejectionTexts) {
        if (text.code == code) return text;
    }
    return {code, X509_verify_cert_error_string(code), nullptr};
}

bool is_wrong_host(int code) noexcept {
    return code == X509_V_ERR_HOSTNAME_MISMATCH || code == X509_V_ERR_IP_ADDRESS_MISMATCH;
}

SessionNotes& notes_of(const SSL* session) noexcept {
    return *static_cast<SessionNotes*>(SSL_get_app_data(session));
}

std::string_view describe_subject(X509* certificate, std::span<char> buffer) noexcept {
    X509_NAME_oneline(X509_get_subject_name(certificate), buffer.data(),
                      static_cast<int>(buffer.size()));
    return buffer.data();
}

}  // namespace

Error CertificateRejection::to_error(const char* operation, std::string_view host) const noexcept {
    const RejectionText text = text_of(code);
    const char* joint = is_wrong_host(code) ? " (certificate is for " : " (of ";
    std::array<char, 256> longer{};
    std::string_view subject = host;
    if (is_wrong_host(code) || depth > 0) {
        std::snprintf(longer.data(), longer.size(), "%.*s%s%.*s)", static_cast<int>(host.size()),
                      host.data(), joint, static_cast<int>(about.size()), about.data());
        subject = longer.data();
    }
    return {Errc::certificate_rejected, operation, subject, 0, text.reason, text.remedy};
}

std::string CertificateRejection::explain(std::string_view host) const {
    const RejectionText text = text_of(code);
    std::string sentence = "certificate verify failed: ";
    if (is_wrong_host(code)) {
        sentence.append("certificate is for ").append(about).append(", not for ").append(host);
    } else {
        sentence += text.reason;
        if (depth > 0) {
            sentence.append(" (").append(about).append(", of the peer's chain)");
        }
        if (!host.empty()) {
            sentence.append(" (host ").append(host).append(")");
        }
    }
    return text.remedy == nullptr ? sentence : sentence.append("; ").append(text.remedy);
}

void SessionNotes::keep_ticket(SessionHandle session) noexcept {
    if (ticket_count == kTicketLimit) {
        std::shift_left(tickets.begin(), tickets.end(), 1);
        --ticket_count;
    }
    tickets[ticket_count++] = std::move(session);
}

SessionHandle SessionNotes::take_latest_ticket() noexcept {
    return ticket_count == 0 ? nullptr : std::move(tickets[--ticket_count]);
}

int note_rejection(int is_accepted, X509_STORE_CTX* store_context) noexcept {
    const auto* session = static_cast<const SSL*>(
        X509_STORE_CTX_get_ex_data(store_context, SSL_get_ex_data_X509_STORE_CTX_idx()));
    X509* certificate = X509_STORE_CTX_get_current_cert(store_context);
    if (is_accepted != 0 || session == nullptr) {
        return is_accepted;
    }
    CertificateRejection& rejection = notes_of(session).rejection;
    rejection.code = X509_STORE_CTX_get_error(store_context);
    rejection.depth = X509_STORE_CTX_get_error_depth(store_context);
    if (certificate != nullptr) {
        const std::span<char> buffer(rejection.about_buffer);
        rejection.about = rejection.depth == 0 ? describe_hosts(certificate, buffer)
                                               : describe_subject(certificate, buffer);
    }
    return is_accepted;
}

// Returning 1 keeps the reference that OpenSSL hands over.
int note_ticket(SSL* session, SSL_SESSION* ticket) noexcept {
    notes_of(session).keep_ticket(SessionHandle(ticket));
    return 1;
}

}  // namespace berth::internal
