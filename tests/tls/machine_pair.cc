// SPDX-License-Identifier: Apache-2.0
#include "tests/tls/machine_pair.h"

#include <algorithm>
#include <array>

namespace berth::tls_test {

using internal::TlsMachine;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

Side::Side(Result<std::unique_ptr<TlsMachine>> machine) : machine_(value_of(std::move(machine))) {}

std::string Side::take_output(std::size_t limit) {
    std::array<iovec, internal::CipherQueue::kChunkLimit> pieces;
    const std::size_t piece_count = machine_->gather_ciphertext(pieces);
    std::string output;
    for (const iovec& piece : std::span(pieces).first(piece_count)) {
        const std::size_t size = std::min(piece.iov_len, limit - output.size());
        output.append(static_cast<const char*>(piece.iov_base), size);
    }
    machine_->consume_ciphertext(output.size());
    return output;
}

bool Side::lend(std::size_t limit) {
    if (inbox.empty() || machine_->unread_ciphertext() > 0) {
        return false;
    }
    lent_ = inbox.substr(0, limit);
    // An allocation of its exact size, so that a sanitizer sees a byte read behind it.
    lent_.shrink_to_fit();
    inbox.erase(0, lent_.size());
    const auto fed = machine_->feed_ciphertext(bytes_of(lent_));
    if (!fed && !error) error = fed.error();
    return true;
}

bool Side::read(std::size_t size) {
    const std::size_t before = plaintext.size();
    std::string buffer(size, '\0');
    while (true) {
        const auto count = machine_->read_plaintext(std::as_writable_bytes(std::span(buffer)));
        if (!count && !error) error = count.error();
        if (!count || *count == 0) break;
        plaintext.append(buffer, 0, *count);
    }
    return plaintext.size() > before;
}

bool Side::write(std::size_t limit) {
    const auto taken =
        machine_->write_plaintext(bytes_of(std::string_view(unwritten).substr(0, limit)));
    if (!taken && !error) error = taken.error();
    unwritten.erase(0, taken.value_or(0));
    return taken.value_or(0) > 0;
}

Pair::Pair(const TlsContext& client_context, const TlsContext& server_context,
           internal::TlsTarget target, const internal::TlsLimits& limits)
    : client(TlsMachine::client(client_context, pool, std::move(target), limits)),
      server(TlsMachine::server(server_context, pool, limits)) {}

void Pair::run(const Chunking& chunking) {
    bool moves = true;
    while (moves) {
        moves = false;
        for (const auto& [from, to] : {std::pair(&client, &server), std::pair(&server, &client)}) {
            if (!from->unwritten.empty() && from->write(chunking())) moves = true;
            const std::string output = from->take_output(chunking());
            to->inbox += output;
            if (to->lend(chunking())) moves = true;
            if (to->read(std::min<std::size_t>(chunking(), 64 * 1024))) moves = true;
            moves = moves || !output.empty();
        }
    }
}

TlsContext client_context(TlsClientOptions options) {
    if (options.ca_file.empty() && options.ca_text.empty()) {
        options.ca_text = test_ca().certificate_pem();
    }
    return value_of(TlsContext::client(options));
}

TlsContext server_context(TlsServerOptions options) {
    if (!options.identity && options.named_identities.empty()) {
        options.identity = certificate_for("host.example").identity();
    }
    return value_of(TlsContext::server(options));
}

TlsContext client_context_of(TlsVersion version, TlsClientOptions options) {
    options.minimum_version = options.maximum_version = version;
    return client_context(std::move(options));
}

TlsContext server_context_of(TlsVersion version, TlsServerOptions options) {
    options.minimum_version = options.maximum_version = version;
    return server_context(std::move(options));
}

testing::AssertionResult says(const std::optional<Error>& error, std::string_view part) {
    if (!error) {
        return testing::AssertionFailure() << "there is no error";
    }
    const std::string message = error->message();
    return message.find(part) != std::string::npos
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << '"' << message << "\" lacks \"" << part << '"';
}

}  // namespace berth::tls_test
