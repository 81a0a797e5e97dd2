// SPDX-License-Identifier: Apache-2.0
#pragma once

// TLS 1.2 and 1.3, by OpenSSL 3. A TlsContext holds what connections have in common: certificates,
// whom to trust, protocols. It is read and checked once, as a whole: a key that does not belong to
// its certificate or a missing file is an error here and not at the first handshake. After that it
// never changes.
//
// A client verifies its peer unless it is told not to by name: the chain up to a trusted CA, the
// dates, and the host's name or IP address (RFC 9525: subjectAltName only, the common name counts
// for nothing; a wildcard stands for one whole label). A server may ask its clients for
// certificates. TLS 1.1 and older, compression and renegotiation are never spoken, early data
// (0-RTT) is neither sent nor accepted.
//
// Limits: revocation is not checked (no CRL, no OCSP). A server's ticket keys live as long as its
// context: make a new one, say once a day, to change them. Ciphers and the security level come from
// OpenSSL and the host's openssl.cnf unless they are given.
//
// Threads: a TlsContext may be used and copied by any number of threads at once; copies share.
//
// Source: RFC 8446 (TLS 1.3), 5246 (1.2), 6066 (SNI), 7301 (ALPN), 9525 (names).

#include <berth/error.h>
#include <berth/export.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

namespace internal {
class TlsMachine;
struct TlsContextState;
struct TlsTicketState;
}  // namespace internal

enum class TlsVersion : std::uint8_t { tls_1_2, tls_1_3 };

/// "TLS 1.2", "TLS 1.3".
BERTH_API std::string_view to_string(TlsVersion version) noexcept;

/// A certificate and its key, in PEM form: a file or the text itself, not both.
struct TlsIdentity {
    /// The certificate first, then the intermediate ones in order; these and no others are sent.
    std::string certificate_file = {};
    std::string certificate_text = {};
    /// Where the key is; neither: where the certificate is.
    std::string key_file = {};
    std::string key_text = {};
    /// Of an encrypted key. Nobody is ever asked for it at the terminal.
    std::string key_password = {};
    /// In a server's `named_identities` only: the host names that get it; "*.example.org" stands
    /// for one label before the rest. An exact name goes before a wildcard. Empty: the names in
    /// the certificate.
    std::vector<std::string> names = {};
};

/// How a client verifies its server.
enum class TlsVerification : std::uint8_t {
    full,        ///< The chain, the dates and the host's name or address.
    chain_only,  ///< Any certificate of a trusted CA, whatever host it is for.
    none,        ///< Nothing: whoever sits between can read and change everything.
};

/// Whom to trust is what all the places that are named hold together. Each certificate there is a
/// trust anchor, whether it is a root, an intermediate or the peer's own.
struct TlsClientOptions {
    std::string ca_file = {};  ///< PEM, any number of certificates.
    std::string ca_text = {};  ///< The same in memory.
    /// Files named by hash, as 'openssl rehash' makes them. Read when a handshake needs one.
    std::string ca_directory = {};
    /// Also the host's own store: OpenSSL's default places, SSL_CERT_FILE, SSL_CERT_DIR. When no
    /// place is named, it is the one.
    bool use_system_store = false;
    TlsVerification verification = TlsVerification::full;
    /// For servers that ask for a certificate.
    std::optional<TlsIdentity> identity = std::nullopt;
    TlsVersion minimum_version = TlsVersion::tls_1_2;
    TlsVersion maximum_version = TlsVersion::tls_1_3;
    /// ALPN names in order of preference, such as {"h2", "http/1.1"}; 1 to 255 bytes each. Empty:
    /// ALPN is not used.
    std::vector<std::string> alpn = {};
    std::string ciphers_1_2 = {};  ///< In OpenSSL's notation; empty: OpenSSL's default.
    std::string ciphers_1_3 = {};  ///< The same for TLS 1.3, "TLS_AES_128_GCM_SHA256:...".
};

/// What a server wants from its clients. A certificate that is sent must pass in any case.
enum class TlsClientCertificate : std::uint8_t { not_requested, optional, required };

struct TlsServerOptions {
    /// For clients that ask for no name, or for one that is not among `named_identities`. Without
    /// it those are refused.
    std::optional<TlsIdentity> identity = std::nullopt;
    std::vector<TlsIdentity> named_identities = {};
    TlsClientCertificate client_certificate = TlsClientCertificate::not_requested;
    /// Whose clients, as in TlsClientOptions; one of them is needed when certificates are asked
    /// for.
    std::string client_ca_file = {};
    std::string client_ca_text = {};
    std::string client_ca_directory = {};
    TlsVersion minimum_version = TlsVersion::tls_1_2;
    TlsVersion maximum_version = TlsVersion::tls_1_3;
    /// ALPN names in order of preference. A client that offers only others is refused; one that
    /// offers none is served without.
    std::vector<std::string> alpn = {};
    std::string ciphers_1_2 = {};
    std::string ciphers_1_3 = {};
    /// Clients keep their sessions themselves, encrypted; costs the server no memory.
    bool session_tickets = true;
    /// Sessions that the server remembers for clients without tickets; about 1 KiB each, more with
    /// client certificates. 0: none.
    std::uint32_t session_cache_size = 0;
};

class BERTH_API TlsContext {
public:
    /// **Errors:** those of reading a file; invalid_argument for a value or a content that cannot
    /// be used (the message names the file or option); tls_failed when OpenSSL fails or the host
    /// has no CA store. **Cost:** reads all files but `ca_directory` and the system's directory.
    static Result<TlsContext> client(const TlsClientOptions& options = {});
    static Result<TlsContext> server(const TlsServerOptions& options);

    TlsContext(TlsContext&&) noexcept;
    TlsContext& operator=(TlsContext&&) noexcept;
    TlsContext(const TlsContext&) noexcept;
    TlsContext& operator=(const TlsContext&) noexcept;
    ~TlsContext();

    /// Made by server(). Not of one that was moved from.
    bool is_server() const noexcept;

private:
    friend class internal::TlsMachine;
    explicit TlsContext(std::shared_ptr<const internal::TlsContextState> state) noexcept;

    std::shared_ptr<const internal::TlsContextState> state_;
};

/// What a client needs to resume a session: a shorter handshake without certificates. Use it for
/// one connection, on any thread; with another host or context than its own it is left aside and
/// the handshake is a full one. Move-only.
class BERTH_API TlsSessionTicket {
public:
    TlsSessionTicket() noexcept;
    TlsSessionTicket(TlsSessionTicket&& other) noexcept;
    TlsSessionTicket& operator=(TlsSessionTicket&& other) noexcept;
    ~TlsSessionTicket();

    explicit operator bool() const noexcept { return state_ != nullptr; }
    /// The host it was made for, as the client named it; empty when there is none. The view lives
    /// as long as the ticket.
    std::string_view host() const noexcept;

private:
    friend class internal::TlsMachine;
    explicit TlsSessionTicket(std::unique_ptr<internal::TlsTicketState> state) noexcept;

    std::unique_ptr<internal::TlsTicketState> state_;
};

}  // namespace berth
