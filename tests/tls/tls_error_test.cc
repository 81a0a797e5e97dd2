// SPDX-License-Identifier: Apache-2.0
#include "src/tls/tls_error.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pemerr.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>

#include <string>

namespace berth::internal {
namespace {

class TlsError : public testing::Test {
protected:
    void SetUp() override {
        // As the first context does.
        OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS, nullptr);
        ERR_clear_error();
    }
    // Nothing of one error is left for the next.
    void TearDown() override { EXPECT_EQ(ERR_peek_error(), 0U); }
};

TEST_F(TlsError, OldestEntryOfLibsslCounts) {
    ERR_raise(ERR_LIB_PROV, 101);
    ERR_raise(ERR_LIB_SSL, SSL_R_NO_SHARED_CIPHER);
    ERR_raise(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED);
    const std::string message = take_openssl_error("tls accept", "").message();
    EXPECT_NE(message.find("no cipher in common; compare the ciphers"), std::string::npos)
        << message;
}

TEST_F(TlsError, WithoutOneOfLibsslTheOldestCounts) {
    ERR_raise(ERR_LIB_PEM, PEM_R_NO_START_LINE);
    ERR_raise(ERR_LIB_PEM, PEM_R_BAD_PASSWORD_READ);
    EXPECT_EQ(std::string(take_openssl_reason()), "no start line");
}

TEST_F(TlsError, AlertWithoutAnEntryKeepsOpenSslsWords) {
    ERR_raise(ERR_LIB_SSL, SSL_AD_REASON_OFFSET + SSL_AD_DECODE_ERROR);
    EXPECT_NE(take_openssl_error("tls read", "").message().find("alert decode error"),
              std::string::npos);
}

TEST_F(TlsError, LackOfMemoryIsItsOwnCode) {
    ERR_raise(ERR_LIB_SSL, ERR_R_MALLOC_FAILURE);
    EXPECT_EQ(take_openssl_error("tls read", "").code(), Errc::out_of_memory);
}

TEST_F(TlsError, EmptyQueueIsStillAnError) {
    EXPECT_NE(take_openssl_error("tls read", "").message().find("OpenSSL gives no reason"),
              std::string::npos);
}

TEST_F(TlsError, PathKeepsItsEnd) {
    EXPECT_EQ(path_subject("/etc/a.pem"), "/etc/a.pem");
    const std::string path = "/" + std::string(100, 'd') + "/a.pem";
    EXPECT_EQ(path_subject(path).size(), 63);
    EXPECT_TRUE(path_subject(path).starts_with("...ddd"));
    EXPECT_TRUE(path_subject(path).ends_with("/a.pem"));
}

}  // namespace
}  // namespace berth::internal
