// SPDX-License-Identifier: Apache-2.0
#pragma once

// The head of an HTTP/1.1 request (RFC 9112), read where it lies: nothing is allocated or copied,
// and no byte but those that are given is looked at. It is strict where leniency lets requests be
// smuggled past proxies: line ends, lengths, spaces before colons.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

struct HttpRequest {
    std::size_t head_size = 0;  // with the empty line that ends it
    std::string_view method;
    std::string_view target;  // as it was sent: see http_target.h
    std::string_view range;   // the Range field; empty: none that counts
    bool is_http_1_1 = false;
    bool keeps_alive = false;
    bool has_body = false;
};

enum class HttpHead : std::uint8_t { incomplete, complete, malformed, other_version };

namespace http {

constexpr char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

constexpr bool equals(std::string_view a, std::string_view b) noexcept {
    return std::ranges::equal(a, b, {}, lower, lower);
}

constexpr bool is_visible(char c) noexcept { return c > ' ' && c <= '~'; }
constexpr bool is_token_sign(char c) noexcept {
    return is_visible(c) && !std::string_view("\"(),/:;<=>?@[\\]{}").contains(c);
}
constexpr bool is_token(std::string_view text) noexcept {
    return !text.empty() && std::ranges::all_of(text, is_token_sign);
}
/// Control characters have no business in a field, and cut some readers' lines short.
constexpr bool is_field_sign(char c) noexcept {
    return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

constexpr std::string_view trim(std::string_view text) noexcept {
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// What is before `end`, which is taken off `rest` too; all of it when `end` is not there.
constexpr std::string_view take_until(std::string_view& rest, std::string_view end) noexcept {
    const std::size_t at = rest.find(end);
    const std::string_view taken = rest.substr(0, at);
    rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + end.size());
    return taken;
}

inline std::optional<std::uint64_t> read_number(std::string_view text) noexcept {
    std::uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, number);
    if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
    return number;
}

inline HttpHead read_request_line(std::string_view line, HttpRequest& request) noexcept {
    request.method = take_until(line, " ");
    request.target = take_until(line, " ");
    const bool is_version = line.size() == 8 && line.starts_with("HTTP/") && is_digit(line[5]) &&
                            line[6] == '.' && is_digit(line[7]);
    if (!is_version || !is_token(request.method) || request.target.empty() ||
        !std::ranges::all_of(request.target, is_visible)) {
        return HttpHead::malformed;
    }
    request.is_http_1_1 = line[7] != '0';
    return line[5] == '1' ? HttpHead::complete : HttpHead::other_version;
}

struct Seen {
    unsigned host_count = 0;
    unsigned length_count = 0;
    bool is_coded = false;
    bool is_conditional = false;
    bool closes = false;
};

/// False when the request cannot be understood.
inline bool read_field(std::string_view line, HttpRequest& request, Seen& seen) noexcept {
    if (!line.contains(':')) return false;
    const std::string_view name = take_until(line, ":");
    std::string_view value = trim(line);
    if (!is_token(name) || !std::ranges::all_of(value, is_field_sign)) return false;
    if (equals(name, "host")) {
        ++seen.host_count;
    } else if (equals(name, "content-length")) {
        const std::optional<std::uint64_t> length = read_number(value);
        request.has_body = request.has_body || length != 0U;
        return length && ++seen.length_count == 1;
    } else if (equals(name, "transfer-encoding")) {
        request.has_body = seen.is_coded = true;
    } else if (equals(name, "range")) {
        request.range = value;
    } else if (equals(name, "if-range")) {
        seen.is_conditional = true;
    } else if (equals(name, "connection")) {
        while (!value.empty()) {
            seen.closes = equals(trim(take_until(value, ",")), "close") || seen.closes;
        }
    }
    return true;
}

}  // namespace http

/// Reads the head at the beginning of `bytes`. What `request` refers to lies in `bytes`.
inline HttpHead parse_http_head(std::string_view bytes, HttpRequest& request) noexcept {
    constexpr std::string_view kLineEnd = "\r\n";
    request = {};
    std::string_view rest = bytes;
    while (rest.starts_with(kLineEnd)) rest.remove_prefix(kLineEnd.size());  // RFC 9112, 2.2
    const std::size_t size = rest.find("\r\n\r\n");
    if (size == std::string_view::npos) return HttpHead::incomplete;
    request.head_size = bytes.size() - rest.size() + size + 4;
    rest = rest.substr(0, size);
    const HttpHead line = http::read_request_line(http::take_until(rest, kLineEnd), request);
    if (line != HttpHead::complete) return line;
    http::Seen seen;
    while (!rest.empty()) {
        if (!http::read_field(http::take_until(rest, kLineEnd), request, seen)) {
            return HttpHead::malformed;
        }
    }
    // A length and a coding contradict each other; HTTP/1.0 knows no codings.
    const bool is_ambiguous = seen.is_coded && (seen.length_count > 0 || !request.is_http_1_1);
    const bool has_wrong_host = seen.host_count > 1 || (request.is_http_1_1 && seen.host_count < 1);
    if (is_ambiguous || has_wrong_host) return HttpHead::malformed;
    // The files of this server have no version that a condition could name (RFC 9110, 13.1.5).
    if (seen.is_conditional) request.range = {};
    request.keeps_alive = request.is_http_1_1 && !seen.closes;
    return HttpHead::complete;
}
