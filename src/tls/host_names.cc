// SPDX-License-Identifier: Apache-2.0
#include "src/tls/host_names.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace berth::internal {
namespace {

constexpr std::size_t kNameLimit = 253;
constexpr std::size_t kLabelLimit = 63;

constexpr char lower(char letter) noexcept {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

constexpr bool is_name_character(char letter) noexcept {
    const char small = lower(letter);
    return (small >= 'a' && small <= 'z') || (small >= '0' && small <= '9') || small == '-' ||
           small == '_';
}

bool is_name(std::string_view name) noexcept {
    if (name.empty() || name.size() > kNameLimit) {
        return false;
    }
    std::size_t label_size = 0;
    for (const char letter : name) {
        if (letter == '.' ? label_size == 0 : !is_name_character(letter)) return false;
        label_size = letter == '.' ? 0 : label_size + 1;
        if (label_size > kLabelLimit) return false;
    }
    return label_size > 0;
}

bool is_address(std::string_view host) noexcept {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (host.size() >= text.size()) {
        return false;
    }
    std::ranges::copy(host, text.begin());
    in6_addr address;
    return ::inet_pton(AF_INET, text.data(), &address) == 1 ||
           ::inet_pton(AF_INET6, text.data(), &address) == 1;
}

std::string_view text_of(const ASN1_STRING* text) noexcept {
    return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
            static_cast<std::size_t>(ASN1_STRING_length(text))};
}

NamesHandle alternative_names_of(X509* certificate) noexcept {
    return NamesHandle(static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
}

// Text into a buffer, as much as fits.
class TextWriter {
public:
    explicit TextWriter(std::span<char> buffer) noexcept : buffer_(buffer) {}

    void write(std::string_view text) noexcept {
        for (const char letter : text) {
            if (size_ == buffer_.size()) return;
            buffer_[size_++] = letter > ' ' && letter <= '~' ? letter : letter == ' ' ? ' ' : '?';
        }
    }

    void write_address(const ASN1_OCTET_STRING* address) noexcept {
        std::array<char, INET6_ADDRSTRLEN> text{};
        const int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
        if ((family == AF_INET || ASN1_STRING_length(address) == 16) &&
            ::inet_ntop(family, ASN1_STRING_get0_data(address), text.data(), text.size())) {
            write(text.data());
        }
    }

    std::string_view text() const noexcept { return {buffer_.data(), size_}; }

private:
    std::span<char> buffer_;
    std::size_t size_ = 0;
};

}  // namespace

HostKind kind_of_host(std::string_view host) noexcept {
    if (is_address(host)) {
        return HostKind::address;
    }
    return is_name(host) ? HostKind::name : HostKind::invalid;
}

bool is_name_pattern(std::string_view pattern) noexcept {
    return is_name(pattern.starts_with("*.") ? pattern.substr(2) : pattern);
}

std::vector<std::string> dns_names_of(X509* certificate) {
    std::vector<std::string> names;
    const NamesHandle all = alternative_names_of(certificate);
    for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
        const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
        if (name->type == GEN_DNS && is_name_pattern(text_of(name->d.dNSName))) {
            names.emplace_back(text_of(name->d.dNSName));
        }
    }
    return names;
}

std::string_view describe_hosts(X509* certificate, std::span<char> buffer) noexcept {
    constexpr int kShown = 3;
    TextWriter writer(buffer);
    const NamesHandle all = alternative_names_of(certificate);
    int host_count = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
        const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
        const bool is_host = name->type == GEN_DNS || name->type == GEN_IPADD;
        if (!is_host || ++host_count > kShown) {
            continue;
        }
        writer.write(host_count > 1 ? ", " : "");
        name->type == GEN_DNS ? writer.write(text_of(name->d.dNSName))
                              : writer.write_address(name->d.iPAddress);
    }
    if (host_count > kShown) {
        std::array<char, 32> more{};
        std::snprintf(more.data(), more.size(), " and %d more", host_count - kShown);
        writer.write(more.data());
    }
    writer.write(host_count == 0 ? "no host" : "");
    return writer.text();
}

bool ServerNames::add(std::string_view pattern, std::size_t identity_index) {
    std::string name(pattern);
    std::ranges::transform(name, name.begin(), lower);
    const auto place = std::ranges::lower_bound(entries_, name, {}, &Entry::first);
    if (place != entries_.end() && place->first == name) {
        return false;
    }
    entries_.emplace(place, std::move(name), identity_index);
    return true;
}

std::optional<std::size_t> ServerNames::find(std::string_view name) const noexcept {
    if (name.ends_with('.')) {
        name.remove_suffix(1);
    }
    std::array<char, kNameLimit> buffer;
    if (!is_name(name)) {
        return std::nullopt;
    }
    std::ranges::transform(name, buffer.begin(), lower);
    const auto find_entry = [this](std::string_view wanted) -> std::optional<std::size_t> {
        const auto place = std::ranges::lower_bound(
            entries_, wanted, {}, [](const Entry& entry) { return std::string_view(entry.first); });
        if (place == entries_.end() || place->first != wanted) return std::nullopt;
        return place->second;
    };
    const std::string_view exact(buffer.data(), name.size());
    const auto found = find_entry(exact);
    const std::size_t dot = exact.find('.');
    if (found || dot == std::string_view::npos || dot == 0) {
        return found;
    }
    // The label before the dot gives way to the '*', in place.
    buffer[dot - 1] = '*';
    return find_entry(exact.substr(dot - 1));
}

}  // namespace berth::internal
