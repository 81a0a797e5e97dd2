// SPDX-License-Identifier: Apache-2.0
#include "src/tls/pem.h"

#include "src/tls/tls_error.h"

#include <berth/descriptor.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace berth::internal {
namespace {

// Far above any bundle of CA certificates; reading a device by mistake ends here.
constexpr std::size_t kFileLimit = 16 << 20;

// Text that may hold a key: wiped when it is no longer needed.
class PemText {
public:
    PemText() = default;
    PemText(PemText&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    PemText(const PemText&) = delete;
    PemText& operator=(const PemText&) = delete;
    PemText& operator=(PemText&&) = delete;
    ~PemText() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

    std::string_view view() const noexcept { return {bytes_.data(), bytes_.size()}; }

    /// Appends what `fd` has. 0, or the errno.
    int read_all(int fd);
    void assign(std::string_view text) { bytes_.assign(text.begin(), text.end()); }

private:
    void grow();

    std::vector<char> bytes_;
};

// A vector that grows by itself would leave unwiped copies behind.
void PemText::grow() {
    std::vector<char> larger;
    larger.reserve(std::max<std::size_t>(2 * bytes_.capacity(), 64 * 1024));
    larger.assign(bytes_.begin(), bytes_.end());
    OPENSSL_cleanse(bytes_.data(), bytes_.size());
    bytes_.swap(larger);
}

int PemText::read_all(int fd) {
    while (bytes_.size() < kFileLimit) {
        if (bytes_.size() == bytes_.capacity()) grow();
        const std::size_t used = bytes_.size();
        bytes_.resize(bytes_.capacity());
        const ssize_t answer = ::read(fd, bytes_.data() + used, bytes_.size() - used);
        const int reason = errno;
        bytes_.resize(used + static_cast<std::size_t>(std::max<ssize_t>(answer, 0)));
        if (answer == 0) return 0;
        if (answer < 0 && reason != EINTR) return reason;
    }
    return EFBIG;
}

// Where PEM comes from, and how errors call it.
struct PemSource {
    const std::string& file;
    const std::string& text;
    const char* operation;
    const char* text_name;
    const char* file_remedy;

    bool is_named() const noexcept { return !file.empty() || !text.empty(); }
    std::string subject() const { return file.empty() ? text_name : path_subject(file); }
    std::unexpected<Error> refusal(const char* reason, const char* remedy) const {
        ERR_clear_error();
        return std::unexpected(
            Error(Errc::invalid_argument, operation, subject(), 0, reason, remedy));
    }
};

PemSource certificate_source(const TlsIdentity& identity) {
    return {identity.certificate_file, identity.certificate_text, "read tls certificate",
            "certificate_text", "check certificate_file"};
}

PemSource key_source(const TlsIdentity& identity) {
    if (identity.key_file.empty() && identity.key_text.empty()) {
        return {identity.certificate_file, identity.certificate_text, "read tls key",
                "certificate_text", "check certificate_file"};
    }
    return {identity.key_file, identity.key_text, "read tls key", "key_text", "check key_file"};
}

Result<PemText> read_pem(const PemSource& source) {
    PemText text;
    if (source.file.empty()) {
        text.assign(source.text);
        return text;
    }
    const Descriptor file(::open(source.file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    const int reason = file.is_open() ? text.read_all(file.get()) : errno;
    if (reason != 0) {
        return std::unexpected(
            Error::from_errno(reason, source.operation, source.subject(), source.file_remedy));
    }
    return text;
}

Result<BioHandle> open_pem(const PemSource& source, const PemText& text) {
    BioHandle bio(BIO_new_mem_buf(text.view().data(), static_cast<int>(text.view().size())));
    if (bio == nullptr) {
        return std::unexpected(take_openssl_error(source.operation, source.subject()));
    }
    return bio;
}

// Nobody is asked at the terminal, which is what OpenSSL does without a function like this.
struct PasswordRequest {
    const std::string& password;
    bool was_made = false;
};

int answer_password(char* buffer, int size, int /*is_written*/, void* pointer) noexcept {
    auto& request = *static_cast<PasswordRequest*>(pointer);
    request.was_made = true;
    const std::string& password = request.password;
    if (password.empty() || password.size() > static_cast<std::size_t>(size)) {
        return -1;
    }
    std::ranges::copy(password, buffer);
    return static_cast<int>(password.size());
}

int no_password(char* /*buffer*/, int /*size*/, int /*is_written*/, void* /*pointer*/) noexcept {
    return -1;
}

bool is_at_end(unsigned long error) noexcept {
    return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

// Every certificate of the source, at least one.
Result<CertificatesHandle> read_certificates(const PemSource& source) {
    const PemText text = BERTH_TRY(read_pem(source));
    const BioHandle bio = BERTH_TRY(open_pem(source, text));
    CertificatesHandle certificates(sk_X509_new_null());
    ERR_clear_error();
    while (CertificateHandle certificate{
        PEM_read_bio_X509_AUX(bio.get(), nullptr, no_password, nullptr)}) {
        if (certificates == nullptr || sk_X509_push(certificates.get(), certificate.get()) == 0) {
            return std::unexpected(Error(Errc::out_of_memory, source.operation, source.subject()));
        }
        static_cast<void>(certificate.release());
    }
    if (!is_at_end(ERR_peek_last_error())) {
        return source.refusal("a certificate in it is damaged",
                              "try 'openssl x509 -noout -in FILE'");
    }
    if (sk_X509_num(certificates.get()) <= 0) {
        return source.refusal("it holds no certificate in PEM form",
                              "from DER: 'openssl x509 -inform der -in FILE'");
    }
    ERR_clear_error();
    return certificates;
}

Result<KeyHandle> read_key(const PemSource& source, const std::string& password) {
    const PemText text = BERTH_TRY(read_pem(source));
    const BioHandle bio = BERTH_TRY(open_pem(source, text));
    PasswordRequest request{password};
    ERR_clear_error();
    KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, answer_password, &request));
    if (key != nullptr) {
        ERR_clear_error();
        return key;
    }
    if (request.was_made) {
        return password.empty() ? source.refusal("the key is encrypted", "set key_password")
                                : source.refusal("the key cannot be decrypted",
                                                 "check key_password, or the key is damaged");
    }
    if (text.view().find("PRIVATE KEY-----") != std::string_view::npos) {
        return source.refusal("the key in it is damaged", "try 'openssl pkey -noout -in FILE'");
    }
    return source.refusal("it holds no private key in PEM form",
                          "name the key by key_file, or put it behind the certificate");
}

Result<void> check_one_place(const PemSource& source, const char* remedy) {
    if (!source.file.empty() && !source.text.empty()) {
        return source.refusal("a file and a text are given", remedy);
    }
    return {};
}

}  // namespace

Result<LoadedIdentity> load_identity(const TlsIdentity& identity) {
    const PemSource certificate = certificate_source(identity);
    const PemSource key = key_source(identity);
    BERTH_TRY(check_one_place(certificate, "leave out certificate_file or certificate_text"));
    BERTH_TRY(check_one_place(key, "leave out key_file or key_text"));
    if (!certificate.is_named()) {
        return std::unexpected(Error(Errc::invalid_argument, "read tls certificate", {}, 0,
                                     "an identity without a certificate",
                                     "set certificate_file or certificate_text"));
    }
    LoadedIdentity loaded;
    loaded.intermediates = BERTH_TRY(read_certificates(certificate));
    loaded.certificate.reset(sk_X509_shift(loaded.intermediates.get()));
    loaded.key = BERTH_TRY(read_key(key, identity.key_password));
    if (X509_check_private_key(loaded.certificate.get(), loaded.key.get()) != 1) {
        return key.refusal("the key does not belong to the certificate",
                           "the certificate must come first, and both from one request");
    }
    return loaded;
}

Result<CertificatesHandle> load_trusted_certificates(const TrustPlaces& places) {
    static const std::string nothing;
    CertificatesHandle all(sk_X509_new_null());
    const PemSource sources[] = {
        {places.ca_file, nothing, "read tls ca", "ca_text", "check ca_file"},
        {nothing, places.ca_text, "read tls ca", "ca_text", "check ca_text"},
    };
    for (const PemSource& source : sources) {
        if (!source.is_named()) {
            continue;
        }
        const CertificatesHandle some = BERTH_TRY(read_certificates(source));
        constexpr int kFlags = X509_ADD_FLAG_UP_REF | X509_ADD_FLAG_NO_DUP;
        if (all == nullptr || X509_add_certs(all.get(), some.get(), kFlags) == 0) {
            return std::unexpected(Error(Errc::out_of_memory, source.operation, source.subject()));
        }
    }
    return all;
}

}  // namespace berth::internal
