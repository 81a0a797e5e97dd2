// SPDX-License-Identifier: Apache-2.0
#include "src/tls/tls_context.h"

#include "src/tls/session_notes.h"
#include "src/tls/ssl_context.h"
#include "src/tls/tls_error.h"

#include <type_traits>

namespace berth {
namespace internal {
namespace {

using StatePointer = std::shared_ptr<TlsContextState>;

constexpr const char* kMakeClient = "make tls client context";
constexpr const char* kMakeServer = "make tls server context";

std::unexpected<Error> refusal(std::string_view subject, const char* reason, const char* remedy) {
    return std::unexpected(Error(Errc::invalid_argument, kMakeServer, subject, 0, reason, remedy));
}

TrustPlaces places_of(const TlsServerOptions& options) noexcept {
    return {options.client_ca_file, options.client_ca_text, options.client_ca_directory, false};
}

template <class Options>
SslContextSettings settings_of(const char* operation, const Options& options) noexcept {
    return {operation,
            std::is_same_v<Options, TlsServerOptions>,
            options.minimum_version,
            options.maximum_version,
            options.ciphers_1_2,
            options.ciphers_1_3};
}

// For SSL_CTX_set_alpn_select_cb(): the first of the server's own that the client has too.
int select_protocol(SSL* /*session*/, const unsigned char** selected, unsigned char* selected_size,
                    const unsigned char* offered, unsigned offered_size, void* state) noexcept {
    const auto& own = static_cast<const TlsContextState*>(state)->alpn;
    unsigned char* protocol = nullptr;
    const int answer =
        SSL_select_next_proto(&protocol, selected_size, own.data(),
                              static_cast<unsigned>(own.size()), offered, offered_size);
    *selected = protocol;
    return answer == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// For SSL_CTX_set_tlsext_servername_callback(); also called when the client names no host.
int select_identity(SSL* session, int* alert, void* pointer) noexcept {
    const auto& state = *static_cast<const TlsContextState*>(pointer);
    const char* name = SSL_get_servername(session, TLSEXT_NAMETYPE_host_name);
    const auto index = name != nullptr ? state.names.find(name) : std::nullopt;
    if (index) {
        return SSL_set_SSL_CTX(session, state.named[*index].get()) != nullptr
                   ? SSL_TLSEXT_ERR_OK
                   : SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    if (!state.refuses_unknown_names) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    static_cast<SessionNotes*>(SSL_get_app_data(session))->is_name_refused = true;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void limit_resumption(SSL_CTX* context, const TlsServerOptions& options) noexcept {
    const bool has_cache = options.session_cache_size > 0;
    SSL_CTX_set_session_cache_mode(context, has_cache ? SSL_SESS_CACHE_SERVER : SSL_SESS_CACHE_OFF);
    if (has_cache) {
        SSL_CTX_sess_set_cache_size(context, static_cast<long>(options.session_cache_size));
    }
    if (!options.session_tickets) {
        SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
        // Without both, a TLS 1.3 ticket would name a session that nobody remembers.
        if (!has_cache) SSL_CTX_set_num_tickets(context, 0);
    }
}

int verify_mode(TlsClientCertificate wanted) noexcept {
    switch (wanted) {
        case TlsClientCertificate::optional:
            return SSL_VERIFY_PEER;
        case TlsClientCertificate::required:
            return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
        case TlsClientCertificate::not_requested:
            break;
    }
    return SSL_VERIFY_NONE;
}

class ServerMaker {
public:
    explicit ServerMaker(const TlsServerOptions& options)
        : options_(options), state_(std::make_shared<TlsContextState>()) {
        state_->is_server = true;
        state_->refuses_unknown_names = !options.identity.has_value();
    }

    Result<StatePointer> make() {
        BERTH_TRY(check());
        state_->alpn = BERTH_TRY(encode_alpn(options_.alpn));
        if (verify_mode(options_.client_certificate) != SSL_VERIFY_NONE) {
            trust_ = BERTH_TRY(make_trust_store(places_of(options_), kMakeServer));
        }
        state_->main = BERTH_TRY(make_one());
        if (options_.identity) {
            BERTH_TRY(use_identity(state_->main.get(), *options_.identity));
        }
        // Spelt out because the macros for it cast in the old style.
        SSL_CTX_callback_ctrl(state_->main.get(), SSL_CTRL_SET_TLSEXT_SERVERNAME_CB,
                              reinterpret_cast<void (*)()>(select_identity));
        SSL_CTX_set_tlsext_servername_arg(state_->main.get(), state_.get());
        for (const TlsIdentity& named : options_.named_identities) {
            BERTH_TRY(add(named));
        }
        return state_;
    }

private:
    Result<void> check() const {
        if (!options_.identity && options_.named_identities.empty()) {
            return refusal({}, "a server without a certificate", "set identity");
        }
        if (options_.identity && !options_.identity->names.empty()) {
            return refusal(options_.identity->names.front(),
                           "identity is for all names that are not listed",
                           "move it to named_identities");
        }
        if (options_.client_certificate != TlsClientCertificate::not_requested &&
            !places_of(options_).are_named()) {
            return refusal({}, "client certificates are asked for and no CA is trusted",
                           "set client_ca_file");
        }
        return {};
    }

    Result<SslContextHandle> make_one() const {
        SslContextHandle context = BERTH_TRY(make_ssl_context(settings_of(kMakeServer, options_)));
        limit_resumption(context.get(), options_);
        if (trust_.store != nullptr) {
            BERTH_TRY(use_trust(context.get(), verify_mode(options_.client_certificate), trust_));
        }
        if (!state_->alpn.empty()) {
            SSL_CTX_set_alpn_select_cb(context.get(), select_protocol, state_.get());
        }
        return context;
    }

    Result<void> add(const TlsIdentity& named) {
        SslContextHandle context = BERTH_TRY(make_one());
        const auto own_names = BERTH_TRY(use_identity(context.get(), named));
        const auto& names = named.names.empty() ? own_names : named.names;
        if (names.empty()) {
            return refusal(path_subject(named.certificate_file),
                           "the certificate is for no host name", "list its names");
        }
        for (const std::string& name : names) {
            if (!is_name_pattern(name)) {
                return refusal(name, "this is no host name, nor '*.' and one",
                               "write international names in their xn-- form");
            }
            if (!state_->names.add(name, state_->named.size())) {
                return refusal(name, "two identities for one name", "leave one of them out");
            }
        }
        state_->named.push_back(std::move(context));
        return {};
    }

    const TlsServerOptions& options_;
    StatePointer state_;
    TrustStore trust_;
};

Result<StatePointer> make_client(const TlsClientOptions& options) {
    auto state = std::make_shared<TlsContextState>();
    state->verification = options.verification;
    state->alpn = BERTH_TRY(encode_alpn(options.alpn));
    state->main = BERTH_TRY(make_ssl_context(settings_of(kMakeClient, options)));
    SSL_CTX* context = state->main.get();
    if (options.verification != TlsVerification::none) {
        TrustPlaces places{options.ca_file, options.ca_text, options.ca_directory,
                           options.use_system_store};
        places.use_system_store = places.use_system_store || !places.are_named();
        const TrustStore store = BERTH_TRY(make_trust_store(places, kMakeClient));
        BERTH_TRY(use_trust(context, SSL_VERIFY_PEER, store));
    }
    if (options.identity) {
        BERTH_TRY(use_identity(context, *options.identity));
    }
    // Unlike its siblings, this function answers 0 when all is well.
    if (!state->alpn.empty() &&
        SSL_CTX_set_alpn_protos(context, state->alpn.data(),
                                static_cast<unsigned>(state->alpn.size())) != 0) {
        return std::unexpected(take_openssl_error(kMakeClient, "alpn"));
    }
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, note_ticket);
    return state;
}

}  // namespace
}  // namespace internal

std::string_view to_string(TlsVersion version) noexcept {
    return version == TlsVersion::tls_1_3 ? "TLS 1.3" : "TLS 1.2";
}

Result<TlsContext> TlsContext::client(const TlsClientOptions& options) {
    return TlsContext(BERTH_TRY(internal::make_client(options)));
}

Result<TlsContext> TlsContext::server(const TlsServerOptions& options) {
    return TlsContext(BERTH_TRY(internal::ServerMaker(options).make()));
}

TlsContext::TlsContext(std::shared_ptr<const internal::TlsContextState> state) noexcept
    : state_(std::move(state)) {}
TlsContext::TlsContext(TlsContext&&) noexcept = default;
TlsContext& TlsContext::operator=(TlsContext&&) noexcept = default;
TlsContext::TlsContext(const TlsContext&) noexcept = default;
TlsContext& TlsContext::operator=(const TlsContext&) noexcept = default;
TlsContext::~TlsContext() = default;

bool TlsContext::is_server() const noexcept { return state_->is_server; }

TlsSessionTicket::TlsSessionTicket(std::unique_ptr<internal::TlsTicketState> state) noexcept
    : state_(std::move(state)) {}
TlsSessionTicket::TlsSessionTicket() noexcept = default;
TlsSessionTicket::TlsSessionTicket(TlsSessionTicket&&) noexcept = default;
TlsSessionTicket& TlsSessionTicket::operator=(TlsSessionTicket&&) noexcept = default;
TlsSessionTicket::~TlsSessionTicket() = default;

std::string_view TlsSessionTicket::host() const noexcept {
    return state_ != nullptr ? std::string_view(state_->host) : std::string_view();
}

}  // namespace berth
