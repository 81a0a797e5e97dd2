// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an HTTP request asks for: the path of its target (RFC 3986) and the part of a file (RFC
// 9110, 14). Nothing is allocated. A path is only decoded here; that it leads nowhere else is the
// business of whoever opens it, since links and renames decide that too.

#include "http_request.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

struct HttpPart {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    bool is_range = false;  // false: the whole
};

namespace http {

constexpr int hex_digit(char c) noexcept {
    if (is_digit(c)) return c - '0';
    return lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
}

}  // namespace http

/// The path of `target`, decoded, relative to the root and ended by a zero byte, in `out`: "" is
/// the root itself. Nothing when it is malformed or has no room.
inline std::optional<std::string_view> decode_http_path(std::string_view target,
                                                        std::span<char> out) noexcept {
    if (!target.starts_with('/')) {  // "http://host/path", which only a proxy would send
        if (!target.contains("://")) return std::nullopt;
        http::take_until(target, "://");
        target.remove_prefix(std::min(target.find_first_of("/?#"), target.size()));
    }
    target = target.substr(0, target.find_first_of("?#"));
    target.remove_prefix(std::min(target.find_first_not_of('/'), target.size()));
    std::size_t size = 0;
    while (!target.empty()) {
        char c = target.front();
        if (c == '%') {
            const int high = target.size() < 3 ? -1 : http::hex_digit(target[1]);
            const int low = target.size() < 3 ? -1 : http::hex_digit(target[2]);
            if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
            c = static_cast<char>(high * 16 + low);
            target.remove_prefix(2);
        }
        target.remove_prefix(1);
        if (size + 1 >= out.size()) return std::nullopt;
        out[size++] = c;
    }
    if (out.empty()) return std::nullopt;
    out[size] = '\0';
    return std::string_view(out.data(), size);
}

/// What the Range field `range` means for a file of `size` bytes; the whole when it has no meaning
/// or names several parts, which a server need not send. Nothing when there is no such part.
inline std::optional<HttpPart> find_http_part(std::string_view range, std::uint64_t size) noexcept {
    const HttpPart whole = {0, size, false};
    std::string_view last_text = range;
    if (!http::equals(http::trim(http::take_until(last_text, "=")), "bytes")) return whole;
    const std::string_view first_text = http::trim(http::take_until(last_text, "-"));
    last_text = http::trim(last_text);
    const std::optional<std::uint64_t> first = http::read_number(first_text);
    const std::optional<std::uint64_t> last = http::read_number(last_text);
    if (first_text.empty() && last) {  // the last so many bytes
        if (*last == 0 || size == 0) return std::nullopt;
        const std::uint64_t count = std::min(*last, size);
        return HttpPart{size - count, count, true};
    }
    const bool has_end = !last_text.empty();
    if (!first || (has_end && (!last || *last < *first)) || !range.contains('-')) return whole;
    if (*first >= size) return std::nullopt;
    const std::uint64_t end = has_end ? std::min(*last, size - 1) : size - 1;
    return HttpPart{*first, end - *first + 1, true};
}
