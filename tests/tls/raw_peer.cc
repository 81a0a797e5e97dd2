// SPDX-License-Identifier: Apache-2.0
#include "tests/tls/raw_peer.h"

#include <openssl/err.h>

#include <array>

namespace berth::tls_test {

RawPeer::RawPeer(Role role, TlsVersion version)
    : role_(role),
      context_(SSL_CTX_new(role == Role::server ? TLS_server_method() : TLS_client_method())) {
    const int number = version == TlsVersion::tls_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
    SSL_CTX_set_min_proto_version(context_.get(), number);
    SSL_CTX_set_max_proto_version(context_.get(), number);
    if (role == Role::server) {
        const TestCertificate own = certificate_for("host.example");
        SSL_CTX_use_cert_and_key(context_.get(), own.certificate.get(), own.key.get(), nullptr, 1);
    }
}

void RawPeer::start(SSL_SESSION* session, std::string_view early_data) {
    ssl_.reset(SSL_new(context_.get()));
    input_ = BIO_new(BIO_s_mem());
    output_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), input_, output_);
    role_ == Role::server ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
    if (!server_name.empty()) {
        SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 server_name.data());
    }
    if (session != nullptr) {
        EXPECT_EQ(SSL_set_session(ssl_.get(), session), 1);
    }
    if (!early_data.empty()) {
        std::size_t size = 0;
        EXPECT_EQ(SSL_write_early_data(ssl_.get(), early_data.data(), early_data.size(), &size), 1);
    }
    work();
}

void RawPeer::work() {
    std::array<char, 32 * 1024> buffer{};
    std::size_t size = 0;
    ERR_clear_error();
    // Reading does the handshake too.
    while (SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &size) == 1) {
        plaintext.append(buffer.data(), size);
    }
    if (const unsigned long entry = ERR_peek_error(); entry != 0) {
        error = ERR_reason_error_string(entry);
    }
    ERR_clear_error();
}

void RawPeer::write(std::string_view text) {
    std::size_t size = 0;
    EXPECT_EQ(SSL_write_ex(ssl_.get(), text.data(), text.size(), &size), 1);
    ERR_clear_error();
}

std::string RawPeer::take_output() {
    std::string output(BIO_ctrl_pending(output_), '\0');
    std::size_t size = 0;
    BIO_read_ex(output_, output.data(), output.size(), &size);
    output.resize(size);
    return output;
}

void RawPeer::run(Side& side) {
    bool moves = true;
    while (moves) {
        const std::string input = side.take_output();
        BIO_write(input_, input.data(), static_cast<int>(input.size()));
        work();
        const std::string output = take_output();
        side.inbox += output;
        while (side.lend()) side.read();
        moves = !input.empty() || !output.empty();
    }
}

}  // namespace berth::tls_test
