// SPDX-License-Identifier: Apache-2.0
#include "src/tls/trust_store.h"

#include "src/tls/tls_error.h"

#include <openssl/err.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <dirent.h>
#include <unistd.h>

namespace berth::internal {
namespace {

struct CloseDirectory {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

// "9f727ac7.0": what OpenSSL looks for in a directory of certificates.
bool is_hashed_name(std::string_view name) noexcept {
    constexpr std::size_t kHashSize = 8;
    constexpr std::string_view kHexadecimal = "0123456789abcdef";
    constexpr std::string_view kDecimal = "0123456789";
    return name.size() > kHashSize + 1 && name.find_first_not_of(kHexadecimal) == kHashSize &&
           name[kHashSize] == '.' &&
           name.find_first_not_of(kDecimal, kHashSize + 1) == std::string_view::npos;
}

// 0, ENODATA for a directory without hashed certificates, or another errno.
int look_for_certificates(const char* path) noexcept {
    const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(path));
    if (directory == nullptr) {
        return errno;
    }
    while (const dirent* entry = ::readdir(directory.get())) {
        if (is_hashed_name(entry->d_name)) return 0;
    }
    return ENODATA;
}

Result<void> add_directory(X509_STORE* store, const std::string& path) {
    const char* operation = "read tls ca_directory";
    const int reason = look_for_certificates(path.c_str());
    if (reason == ENODATA) {
        return std::unexpected(Error(Errc::invalid_argument, operation, path_subject(path), 0,
                                     "no certificate in it is named by its hash",
                                     "run 'openssl rehash' on it"));
    }
    if (reason != 0) {
        return std::unexpected(
            Error::from_errno(reason, operation, path_subject(path), "check ca_directory"));
    }
    if (X509_STORE_load_path(store, path.c_str()) != 1) {
        return std::unexpected(take_openssl_error(operation, path_subject(path)));
    }
    return {};
}

const char* from_environment(const char* name, const char* otherwise) noexcept {
    const char* value = ::secure_getenv(name);
    return value != nullptr ? value : otherwise;
}

// Like OpenSSL, which takes SSL_CERT_DIR as a list.
bool has_system_directory() {
    std::string_view list =
        from_environment(X509_get_default_cert_dir_env(), X509_get_default_cert_dir());
    while (!list.empty()) {
        const std::string path(list.substr(0, list.find(':')));
        if (look_for_certificates(path.c_str()) == 0) return true;
        list.remove_prefix(std::min(path.size() + 1, list.size()));
    }
    return false;
}

Result<void> add_system_store(X509_STORE* store, const char* operation) {
    const char* file =
        from_environment(X509_get_default_cert_file_env(), X509_get_default_cert_file());
    if (::access(file, R_OK) != 0 && !has_system_directory()) {
        return std::unexpected(Error(Errc::tls_failed, operation, {}, 0,
                                     "this host has no store of CA certificates",
                                     "install ca-certificates, or name a ca_file"));
    }
    if (X509_STORE_set_default_paths(store) != 1) {
        return std::unexpected(take_openssl_error(operation, "system store"));
    }
    ERR_clear_error();
    return {};
}

Result<void> add_certificates(X509_STORE* store, STACK_OF(X509) * certificates,
                              const char* operation) {
    for (int i = 0; i < sk_X509_num(certificates); ++i) {
        if (X509_STORE_add_cert(store, sk_X509_value(certificates, i)) != 1) {
            return std::unexpected(take_openssl_error(operation, "ca certificates"));
        }
    }
    return {};
}

}  // namespace

Result<TrustStore> make_trust_store(const TrustPlaces& places, const char* operation) {
    TrustStore made;
    made.certificates = BERTH_TRY(load_trusted_certificates(places));
    made.store.reset(X509_STORE_new());
    if (made.store == nullptr) {
        return std::unexpected(Error(Errc::out_of_memory, operation));
    }
    BERTH_TRY(add_certificates(made.store.get(), made.certificates.get(), operation));
    if (!places.ca_directory.empty()) {
        BERTH_TRY(add_directory(made.store.get(), places.ca_directory));
    }
    if (places.use_system_store) {
        BERTH_TRY(add_system_store(made.store.get(), operation));
    }
    return made;
}

}  // namespace berth::internal
