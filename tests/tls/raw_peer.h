// SPDX-License-Identifier: Apache-2.0
#pragma once

// The other side as a program without berth has it: plain OpenSSL, which does on request what a
// TlsMachine never does (renegotiate, update keys at will, choose protocols nobody offered).

#include "tests/tls/machine_pair.h"

#include <string>

namespace berth::tls_test {

class RawPeer {
public:
    enum class Role : bool { client, server };

    /// A server shows a certificate of the test CA for "host.example".
    explicit RawPeer(Role role, TlsVersion version = TlsVersion::tls_1_3);

    SSL* ssl() { return ssl_.get(); }
    SSL_CTX* context() { return context_.get(); }
    /// Makes the session, after the context was changed. A client may resume one and send data
    /// before the handshake.
    void start(SSL_SESSION* session = nullptr, std::string_view early_data = {});
    /// Takes what the machine sends, works on it, and lends its own output to the machine; until
    /// nothing moves any more.
    void run(Side& side);
    void write(std::string_view text);
    std::string take_output();
    bool is_connected() { return SSL_is_init_finished(ssl_.get()) == 1; }

    std::string server_name;  // a client asks for it, whatever it is; empty: for none
    std::string plaintext;
    std::string error;  // OpenSSL's reason for the last one

private:
    void work();

    Role role_;
    internal::SslContextHandle context_;
    internal::SslHandle ssl_;
    BIO* input_ = nullptr;   // owned by ssl_
    BIO* output_ = nullptr;  // owned by ssl_
};

}  // namespace berth::tls_test
