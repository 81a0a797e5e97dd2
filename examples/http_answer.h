// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the file server answers: which file, and the head of the answer (RFC 9110, RFC 9112).

#include "http_target.h"

#include <berth/descriptor.h>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

struct HttpAnswer {
    int status = 200;
    std::string_view type = "text/plain; charset=utf-8";
    std::uint64_t file_size = 0;  // of the whole; 200, 206 and 416 are about a file
    HttpPart part;                // of it that is sent, or of the text that says what is wrong
    bool keeps_alive = true;
};

namespace http {

/// The value of `key` in a table whose last entry is for all others.
template <class Table, class Key>
constexpr std::string_view look_up(const Table& table, const Key& key) noexcept {
    const auto last = table.end() - 1;
    return std::find_if(table.begin(), last, [&](auto& entry) { return entry.first == key; })
        ->second;
}

constexpr std::string_view phrase_of(int status) noexcept {
    constexpr auto kPhrases = std::to_array<std::pair<int, std::string_view>>({
        {200, "OK"},
        {206, "Partial Content"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {416, "Range Not Satisfiable"},
        {431, "Request Header Fields Too Large"},
        {505, "HTTP Version Not Supported"},
        {503, "Service Unavailable"},
    });
    return look_up(kPhrases, status);
}

/// The media type of a file, by the end of its name.
constexpr std::string_view type_of(std::string_view path) noexcept {
    constexpr auto kTypes = std::to_array<std::pair<std::string_view, std::string_view>>({
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css"},
        {".js", "text/javascript"},
        {".json", "application/json"},
        {".txt", "text/plain; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".jpg", "image/jpeg"},
        {"", "application/octet-stream"},
    });
    const std::size_t dot = path.rfind('.');
    return look_up(kTypes, path.substr(std::min(dot, path.size())));
}

inline std::string date_of(std::time_t time) {
    std::tm parts{};
    ::gmtime_r(&time, &parts);
    std::array<char, 64> text{};
    return {text.data(),
            std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

/// For reading, and only below `directory`: links that lead elsewhere are not followed. 0 or errno.
inline int open_beneath(int directory, const char* path, berth::Descriptor& file) {
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;  // a fifo waits for no writer
    how.resolve = RESOLVE_BENEATH;
    const long fd = ::syscall(SYS_openat2, directory, path, &how, sizeof how);
    const int reason = fd < 0 ? errno : 0;
    file.reset(static_cast<int>(fd));
    return reason;
}

}  // namespace http

inline HttpAnswer http_failure(int status) {
    HttpAnswer answer;
    answer.status = status;
    return answer;
}

/// What there is to say about a file below `root`, and the file if it is to be sent.
inline HttpAnswer find_http_file(int root, const HttpRequest& request, berth::Descriptor& file) {
    std::array<char, 4096> room;
    const auto path = decode_http_path(request.target, room);
    if (!path) return http_failure(400);
    berth::Descriptor found;
    struct stat about{};
    int reason = http::open_beneath(root, path->empty() ? "." : path->data(), found);
    const bool is_directory =
        reason == 0 && ::fstat(found.get(), &about) == 0 && S_ISDIR(about.st_mode);
    if (is_directory) {
        const berth::Descriptor directory = std::move(found);
        reason = http::open_beneath(directory.get(), "index.html", found);
    }
    const bool is_overloaded = reason == EMFILE || reason == ENFILE || reason == ENOMEM;
    if (is_overloaded) return http_failure(503);
    if (reason != 0) return http_failure(reason == EACCES ? 403 : 404);
    if (::fstat(found.get(), &about) != 0 || !S_ISREG(about.st_mode)) return http_failure(404);
    HttpAnswer answer;
    answer.type = http::type_of(is_directory ? ".html" : *path);
    answer.file_size = static_cast<std::uint64_t>(about.st_size);
    const std::optional<HttpPart> part = find_http_part(request.range, answer.file_size);
    answer.status = !part ? 416 : part->is_range ? 206 : 200;
    answer.part = part.value_or(HttpPart());
    if (part) file = std::move(found);
    return answer;
}

inline std::string http_head(const HttpAnswer& answer) {
    std::string head = "HTTP/1.1 " + std::to_string(answer.status) + ' ';
    head += http::phrase_of(answer.status);
    head += "\r\nDate: " + http::date_of(std::time(nullptr));
    head += "\r\nContent-Length: " + std::to_string(answer.part.size) + "\r\nContent-Type: ";
    head += answer.type;
    const std::string whole = '/' + std::to_string(answer.file_size);
    if (answer.status == 200) head += "\r\nAccept-Ranges: bytes";
    if (answer.status == 405) head += "\r\nAllow: GET, HEAD";
    if (answer.status == 416) head += "\r\nContent-Range: bytes *" + whole;
    if (answer.status == 206) {
        head += "\r\nContent-Range: bytes " + std::to_string(answer.part.offset) + '-' +
                std::to_string(answer.part.offset + answer.part.size - 1) + whole;
    }
    return head + (answer.keeps_alive ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n");
}
