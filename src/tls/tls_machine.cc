// SPDX-License-Identifier: Apache-2.0
#include "src/tls/tls_machine.h"

#include "src/base/assert.h"
#include "src/tls/host_names.h"
#include "src/tls/tls_context.h"
#include "src/tls/tls_error.h"

#include <openssl/err.h>

#include <algorithm>
#include <new>
#include <utility>

namespace berth::internal {
namespace {

constexpr std::size_t kRecordLimit = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::size_t kPendingLimit = 128 * 1024;

std::unexpected<Error> refusal(const char* operation, std::string_view host, const char* reason,
                               const char* remedy) {
    return std::unexpected(Error(Errc::invalid_argument, operation, host, 0, reason, remedy));
}

}  // namespace

TlsMachine::TlsMachine(std::shared_ptr<const TlsContextState> context, CipherChunkPool& pool,
                       const TlsLimits& limits) noexcept
    : context_(std::move(context)), limits_(limits), channel_(pool) {
    limits_.pending_limit = std::clamp<std::size_t>(limits.pending_limit, 1, kPendingLimit);
    limits_.record_limit = std::clamp<std::size_t>(limits.record_limit, 1, kRecordLimit);
}

TlsMachine::~TlsMachine() {
    // Otherwise OpenSSL takes the session out of the server's cache when no close_notify was sent.
    // After a failure of TLS itself it has done so, as it should.
    if (ssl_ != nullptr && (!failure_ || has_input_ended_)) {
        SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    }
}

Result<std::unique_ptr<TlsMachine>> TlsMachine::make(const TlsContext& context,
                                                     CipherChunkPool& pool,
                                                     const TlsLimits& limits) {
    ERR_clear_error();
    SslHandle ssl(SSL_new(context.state_->main.get()));
    std::unique_ptr<TlsMachine> machine(new (std::nothrow)
                                            TlsMachine(context.state_, pool, limits));
    BioHandle bio = machine != nullptr ? make_memory_bio(machine->channel_) : nullptr;
    if (ssl == nullptr || bio == nullptr) {
        ERR_clear_error();
        return std::unexpected(Error(Errc::out_of_memory, "make tls session"));
    }
    SSL_set_bio(ssl.get(), bio.get(), bio.get());
    static_cast<void>(bio.release());
    SSL_set_app_data(ssl.get(), &machine->notes_);
    SSL_set_verify(ssl.get(), SSL_get_verify_mode(ssl.get()), note_rejection);
    machine->ssl_ = std::move(ssl);
    return machine;
}

Result<std::unique_ptr<TlsMachine>> TlsMachine::client(const TlsContext& context,
                                                       CipherChunkPool& pool, TlsTarget target,
                                                       const TlsLimits& limits) {
    if (context.is_server()) {
        return refusal("make tls client", target.host, "the context is a server's",
                       "make one by TlsContext::client()");
    }
    auto machine = BERTH_TRY(make(context, pool, limits));
    BERTH_TRY(machine->aim_at(target.host));
    machine->resume(std::move(target.ticket));
    SSL_set_connect_state(machine->ssl_.get());
    machine->shake_hands();
    BERTH_TRY(machine->status());
    return machine;
}

Result<std::unique_ptr<TlsMachine>> TlsMachine::server(const TlsContext& context,
                                                       CipherChunkPool& pool,
                                                       const TlsLimits& limits) {
    if (!context.is_server()) {
        return refusal("make tls server", {}, "the context is a client's",
                       "make one by TlsContext::server()");
    }
    auto machine = BERTH_TRY(make(context, pool, limits));
    SSL_set_accept_state(machine->ssl_.get());
    machine->is_starved_ = true;
    return machine;
}

// Whom the peer's certificate must be for, and the name that is sent.
Result<void> TlsMachine::aim_at(std::string_view host) {
    constexpr const char* kOperation = "make tls client";
    const bool is_verified = context_->verification == TlsVerification::full;
    host_ = host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
    if (host_.empty()) {
        return is_verified ? Result<void>(refusal(kOperation, {}, "no host to verify",
                                                  "give the host's name, or verify chain_only"))
                           : Result<void>();
    }
    X509_VERIFY_PARAM* parameters = SSL_get0_param(ssl_.get());
    X509_VERIFY_PARAM_set_hostflags(
        parameters, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const HostKind kind = kind_of_host(host_);
    if (kind == HostKind::invalid) {
        return refusal(kOperation, host, "this is neither a host name nor an address",
                       "write international names in their xn-- form");
    }
    const bool is_name = kind == HostKind::name;
    bool is_set = !is_name || SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME,
                                       TLSEXT_NAMETYPE_host_name, host_.data()) == 1;
    if (is_set && is_verified) {
        is_set = is_name ? X509_VERIFY_PARAM_set1_host(parameters, host_.data(), host_.size()) == 1
                         : X509_VERIFY_PARAM_set1_ip_asc(parameters, host_.c_str()) == 1;
    }
    return is_set ? Result<void>() : std::unexpected(take_openssl_error(kOperation, host));
}

// A resumed session shows no certificate: it stands for the checks of the one it continues, and so
// only for the same host by the same context.
void TlsMachine::resume(TlsSessionTicket ticket) noexcept {
    const auto& state = ticket.state_;
    if (state != nullptr && state->host == host_ && state->context == context_ &&
        SSL_SESSION_is_resumable(state->session.get()) == 1) {
        SSL_set_session(ssl_.get(), state->session.get());
        ERR_clear_error();
    }
}

const char* TlsMachine::operation() const noexcept {
    return context_->is_server ? "tls accept" : "tls handshake";
}

Result<void> TlsMachine::status() const noexcept {
    return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>();
}

void TlsMachine::fail(const Error& error) noexcept {
    if (!failure_) failure_ = error;
    is_starved_ = false;
    channel_.input = {};
}

Error TlsMachine::openssl_failure(const char* operation) const noexcept {
    const Error error = take_openssl_error(operation, server_name());
    if (channel_.is_output_full) {
        return Error(Errc::tls_failed, operation, server_name(), 0,
                     "the peer asks for answers and does not take them");
    }
    if (channel_.is_out_of_memory) {
        return {Errc::out_of_memory, operation, server_name()};
    }
    if (notes_.rejection.code != X509_V_OK) {
        return notes_.rejection.to_error(operation, server_name());
    }
    if (notes_.is_name_refused) {
        return Error(Errc::tls_failed, operation, server_name(), 0,
                     "no identity for the host that the client asks for",
                     "add one to named_identities, or a default identity");
    }
    return error;
}

// What an answer of OpenSSL's means. Writing never blocks: the output takes all or fails.
TlsMachine::Step TlsMachine::judge(int answer, const char* operation) noexcept {
    is_starved_ = false;
    if (channel_.has_lost_output()) {
        fail(openssl_failure(operation));
        return Step::failed;
    }
    if (answer > 0) {
        return Step::done;
    }
    switch (SSL_get_error(ssl_.get(), answer)) {
        case SSL_ERROR_WANT_READ:
            return starve(operation);
        case SSL_ERROR_ZERO_RETURN:
            if (!is_handshake_done_) break;
            is_read_closed_ = true;
            channel_.input = {};
            return Step::closed;
        default:
            fail(openssl_failure(operation));
            return Step::failed;
    }
    return end_early(operation);
}

TlsMachine::Step TlsMachine::starve(const char* operation) noexcept {
    is_starved_ = !has_input_ended_;
    return has_input_ended_ ? end_early(operation) : Step::starved;
}

TlsMachine::Step TlsMachine::end_early(const char* operation) noexcept {
    const char* reason =
        is_handshake_done_ ? "there was no close_notify" : "the handshake was not done";
    fail(Error(Errc::truncated, operation, server_name(), 0, reason));
    return Step::failed;
}

void TlsMachine::shake_hands() noexcept {
    ERR_clear_error();
    if (judge(SSL_do_handshake(ssl_.get()), operation()) == Step::done) {
        finish_handshake();
    }
}

void TlsMachine::finish_handshake() noexcept {
    is_handshake_done_ = true;
    if (context_->is_server) {
        return;
    }
    // A TLS 1.2 server may go on with the old ticket without a new one.
    if (was_resumed() && !has_session_ticket() && version() == TlsVersion::tls_1_2) {
        notes_.keep_ticket(SessionHandle(SSL_get1_session(ssl_.get())));
    }
}

Result<void> TlsMachine::feed_ciphertext(std::span<const std::byte> received) noexcept {
    BERTH_ASSERT(channel_.input.empty());
    if (failure_ || is_read_closed_) {
        return status();
    }
    channel_.input = received;
    if (!is_handshake_done_ && !received.empty()) {
        shake_hands();
    }
    return status();
}

Result<void> TlsMachine::end_of_input() noexcept {
    has_input_ended_ = true;
    if (!failure_ && !is_handshake_done_) {
        end_early(operation());
    }
    // Where something may be left to read, reading comes to the end.
    return is_starved_ ? advance() : status();
}

// Without input OpenSSL would get its record buffer, find nothing, and give it back.
bool TlsMachine::has_something_to_read() const noexcept {
    return !channel_.input.empty() || has_plaintext();
}

Result<void> TlsMachine::advance() noexcept {
    if (!is_handshake_done_ || failure_ || is_read_closed_) {
        return status();
    }
    if (!has_something_to_read()) {
        starve("tls read");
        return status();
    }
    char byte = 0;
    std::size_t size = 0;
    ERR_clear_error();
    judge(SSL_peek_ex(ssl_.get(), &byte, sizeof byte, &size), "tls read");
    return status();
}

Result<std::size_t> TlsMachine::read_plaintext(std::span<std::byte> plaintext) noexcept {
    BERTH_TRY(status());
    std::size_t total = 0;
    Step step = is_handshake_done_ && !is_read_closed_ ? Step::done : Step::starved;
    while (step == Step::done && total < plaintext.size()) {
        if (!has_something_to_read()) {
            step = starve("tls read");
            break;
        }
        std::size_t size = 0;
        ERR_clear_error();
        const int answer =
            SSL_read_ex(ssl_.get(), plaintext.data() + total, plaintext.size() - total, &size);
        step = judge(answer, "tls read");
        total += size;
    }
    // What came before the failure is handed out first; the next call tells of it.
    if (step == Step::failed && total == 0) {
        return std::unexpected(*failure_);
    }
    return total;
}

Result<std::size_t> TlsMachine::write_plaintext(std::span<const std::byte> plaintext) noexcept {
    BERTH_TRY(status());
    if (is_write_closed_) {
        return std::unexpected(
            Error(Errc::closed, "tls write", server_name(), 0, "after shutdown()"));
    }
    std::size_t total = 0;
    while (total < plaintext.size() && can_write()) {
        const std::size_t wanted = std::min(plaintext.size() - total, limits_.record_limit);
        std::size_t size = 0;
        ERR_clear_error();
        if (!change_key_when_due() ||
            SSL_write_ex(ssl_.get(), plaintext.data() + total, wanted, &size) != 1) {
            fail(openssl_failure("tls write"));
            return std::unexpected(*failure_);
        }
        total += size;
    }
    return total;
}

bool TlsMachine::change_key_when_due() noexcept {
    if (++records_written_ <= limits_.records_per_key || version() != TlsVersion::tls_1_3) {
        return true;
    }
    records_written_ = 1;
    return SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1;
}

Result<void> TlsMachine::shutdown() noexcept {
    BERTH_TRY(status());
    if (std::exchange(is_write_closed_, true) || !is_handshake_done_) {
        return {};
    }
    ERR_clear_error();
    // 0: said, and the peer has not said it yet.
    if (SSL_shutdown(ssl_.get()) < 0) {
        fail(openssl_failure("tls shutdown"));
    }
    return status();
}

std::string TlsMachine::explain_failure() const {
    if (!failure_) {
        return {};
    }
    return notes_.rejection.code != X509_V_OK ? notes_.rejection.explain(server_name())
                                              : failure_->message();
}

TlsVersion TlsMachine::version() const noexcept {
    return SSL_version(ssl_.get()) == TLS1_3_VERSION ? TlsVersion::tls_1_3 : TlsVersion::tls_1_2;
}

std::string_view TlsMachine::alpn() const noexcept {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &size);
    return {reinterpret_cast<const char*>(name), size};
}

std::string TlsMachine::peer_certificate_subject() const {
    X509* certificate = SSL_get0_peer_certificate(ssl_.get());
    const BioHandle text(certificate != nullptr ? BIO_new(BIO_s_mem()) : nullptr);
    if (text == nullptr || X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0,
                                              XN_FLAG_RFC2253 & ~static_cast<unsigned long>(
                                                                    ASN1_STRFLGS_ESC_MSB)) < 0) {
        return {};
    }
    BUF_MEM* memory = nullptr;
    BIO_get_mem_ptr(text.get(), &memory);
    return {memory->data, memory->length};
}

std::string_view TlsMachine::server_name() const noexcept {
    if (!context_->is_server) {
        return host_;
    }
    const char* name = SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name);
    const std::string_view host = name != nullptr ? name : std::string_view();
    // It comes from a stranger, and may go to a terminal with an error's message.
    return kind_of_host(host) != HostKind::invalid ? host : std::string_view();
}

std::optional<TlsSessionTicket> TlsMachine::take_session_ticket() {
    const SessionHandle kept = notes_.take_latest_ticket();
    // A copy, because this machine's OpenSSL may still change its own, and the ticket goes
    // elsewhere.
    SessionHandle session(kept != nullptr ? SSL_SESSION_dup(kept.get()) : nullptr);
    if (session == nullptr) {
        return std::nullopt;
    }
    return TlsSessionTicket(
        std::make_unique<TlsTicketState>(TlsTicketState{std::move(session), host_, context_}));
}

}  // namespace berth::internal
