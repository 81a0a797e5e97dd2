// SPDX-License-Identifier: Apache-2.0
#pragma once

// As much of DNS messages (RFC 1035) as it takes to ask a server for addresses. Nothing is
// allocated; no byte is read but those that are given. Names in answers are skipped, their pointers
// are not followed.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

enum class DnsType : std::uint16_t { a = 1, aaaa = 28 };

struct DnsQuery {
    DnsType type = DnsType::a;
    std::size_t size = 0;
    std::array<std::uint8_t, 12 + 255 + 4> bytes = {};

    std::span<const std::uint8_t> message() const { return std::span(bytes).first(size); }
};

struct DnsAnswer {
    static constexpr std::size_t kMostAddresses = 16;  // those behind them are left out

    std::uint8_t code = 0;      // 0: no error, 2: the server failed, 3: no such name, …
    bool is_truncated = false;  // the whole answer can be had over TCP
    std::size_t address_count = 0;
    std::array<std::array<std::uint8_t, 16>, kMostAddresses> addresses = {};  // IPv4: the first 4
};

/// What a message is to somebody who has asked a question.
enum class DnsVerdict : std::uint8_t { answer, damaged, unrelated };

namespace dns {

constexpr std::size_t kHeaderSize = 12;

/// Reads from the front of a message; after an overrun all it gives is 0, and it is no longer good.
class Reader {
public:
    explicit Reader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

    bool is_good() const { return is_good_; }
    std::span<const std::uint8_t> take(std::size_t size) {
        is_good_ = is_good_ && size <= rest_.size();
        if (!is_good_) return {};
        const auto taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }
    unsigned byte() {
        const auto one = take(1);
        return one.empty() ? 0 : one[0];
    }
    unsigned number() {
        const unsigned high = byte();
        return high << 8 | byte();
    }
    void skip_name() {
        for (;;) {
            const unsigned size = byte();
            if (size == 0) return;                   // or the end of the message
            if (size >= 0xc0) return void(take(1));  // the rest of the name is elsewhere
            is_good_ = is_good_ && size < 0x40;
            take(size);
        }
    }

private:
    std::span<const std::uint8_t> rest_;
    bool is_good_ = true;
};

constexpr std::uint8_t lower(std::uint8_t c) {
    return c >= 'A' && c <= 'Z' ? static_cast<std::uint8_t>(c + ('a' - 'A')) : c;
}

/// False when `name` is no name: a label of 1 to 63 bytes between dots, 255 bytes in all.
inline bool append_name(std::string_view name, DnsQuery& query) {
    if (name.ends_with('.')) name.remove_suffix(1);
    if (name.empty() || name.size() > 253) return false;
    while (!name.empty()) {
        const std::size_t size = std::min(name.find('.'), name.size());
        if (size == 0 || size > 63 || name.ends_with('.')) return false;
        query.bytes[query.size++] = static_cast<std::uint8_t>(size);
        for (const char c : name.substr(0, size)) {
            query.bytes[query.size++] = static_cast<std::uint8_t>(c);
        }
        name.remove_prefix(std::min(size + 1, name.size()));
    }
    query.bytes[query.size++] = 0;
    return true;
}

}  // namespace dns

/// A question that the server is to answer in full (recursion). Nothing when `name` is no name.
inline std::optional<DnsQuery> make_dns_query(std::uint16_t id, std::string_view name,
                                              DnsType type) {
    DnsQuery query = {.type = type, .size = dns::kHeaderSize};
    query.bytes[0] = static_cast<std::uint8_t>(id >> 8);
    query.bytes[1] = static_cast<std::uint8_t>(id & 0xff);
    query.bytes[2] = 1;  // recursion desired
    query.bytes[5] = 1;  // one question
    if (!dns::append_name(name, query)) return std::nullopt;
    query.bytes[query.size + 1] = static_cast<std::uint8_t>(type);
    query.bytes[query.size + 3] = 1;  // class IN
    query.size += 4;
    return query;
}

/// Whether `message` answers `query`: the same number, the same question. Who has not seen the
/// query can only guess at both, and at the port that it came from.
inline DnsVerdict read_dns_answer(std::span<const std::uint8_t> message, const DnsQuery& query,
                                  DnsAnswer& answer) {
    answer = {};
    const auto asked = query.message();
    const bool has_question =
        message.size() >= asked.size() && message[0] == asked[0] && message[1] == asked[1] &&
        (message[2] & 0xf8) == 0x80 &&  // an answer to a plain query
        message[4] == 0 && message[5] == 1 &&
        std::ranges::equal(asked.subspan(dns::kHeaderSize),
                           message.subspan(dns::kHeaderSize, asked.size() - dns::kHeaderSize), {},
                           dns::lower, dns::lower);
    if (!has_question) return DnsVerdict::unrelated;
    answer.is_truncated = (message[2] & 2) != 0;
    answer.code = message[3] & 0xf;
    dns::Reader reader(message.subspan(asked.size()));
    const unsigned record_count = unsigned{message[6]} << 8 | message[7];
    for (unsigned i = 0; i < record_count && !answer.is_truncated; ++i) {
        reader.skip_name();
        const unsigned type = reader.number();
        const unsigned of_class = reader.number();
        reader.take(4);  // time to live
        const auto data = reader.take(reader.number());
        if (!reader.is_good()) return DnsVerdict::damaged;
        const bool is_address = data.size() == (query.type == DnsType::a ? 4 : 16);
        const bool is_wanted = type == static_cast<unsigned>(query.type) && of_class == 1;
        if (is_wanted && is_address && answer.address_count < DnsAnswer::kMostAddresses) {
            std::ranges::copy(data, answer.addresses[answer.address_count++].begin());
        }
    }
    return DnsVerdict::answer;
}
