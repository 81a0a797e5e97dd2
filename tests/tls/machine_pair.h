// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two TLS machines with a wire between them that a test can look at, cut and bend.
//
//     client.machine ── client.outbox ─▶ server.inbox ── lent ─▶ server.machine   and back

#include "src/tls/tls_machine.h"

#include "tests/tls/test_certificates.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace berth::tls_test {

std::span<const std::byte> bytes_of(std::string_view text);

/// One machine as a stream would drive it.
class Side {
public:
    explicit Side(Result<std::unique_ptr<internal::TlsMachine>> machine);

    internal::TlsMachine& machine() { return *machine_; }
    internal::TlsMachine* operator->() { return machine_.get(); }

    /// Takes at most `limit` bytes of ciphertext out of the machine.
    std::string take_output(std::size_t limit = SIZE_MAX);
    /// Received, not lent to the machine yet.
    std::string inbox;
    /// Lends at most `limit` bytes of the inbox when the machine is through with the last ones.
    /// False when there is nothing to lend, or the last ones are still in use.
    bool lend(std::size_t limit = SIZE_MAX);
    /// Reads with spans of `size` until nothing comes; appends to `plaintext`. True when it grew.
    bool read(std::size_t size = 64 * 1024);
    /// Writes what the machine takes of `unwritten`. True when it took something.
    bool write(std::size_t limit = SIZE_MAX);

    std::string plaintext;
    std::string unwritten;
    /// The first error that a call answered.
    std::optional<Error> error;

private:
    std::unique_ptr<internal::TlsMachine> machine_;
    std::string lent_;
};

/// How many bytes the next step moves.
using Chunking = std::function<std::size_t()>;
inline std::size_t all_at_once() { return SIZE_MAX; }

struct Pair {
    explicit Pair(const TlsContext& client_context, const TlsContext& server_context,
                  internal::TlsTarget target = {.host = "host.example"},
                  const internal::TlsLimits& limits = {});

    /// Moves ciphertext and plaintext both ways until nothing moves any more.
    void run(const Chunking& chunking = all_at_once);
    bool are_connected() { return client->is_handshake_done() && server->is_handshake_done(); }

    internal::CipherChunkPool pool;
    Side client;
    Side server;
};

/// Contexts for "host.example" with the shared test CA.
TlsContext client_context(TlsClientOptions options = {});
TlsContext server_context(TlsServerOptions options = {});
/// Which also speak this version only.
TlsContext client_context_of(TlsVersion version, TlsClientOptions options = {});
TlsContext server_context_of(TlsVersion version, TlsServerOptions options = {});

/// Fails the test, and ends it by std::bad_expected_access, when there is no value.
template <class T>
T value_of(Result<T> result) {
    if (!result) ADD_FAILURE() << result.error().message();
    return std::move(result.value());
}

/// For EXPECT_TRUE: `error` is there and its message has this in it.
testing::AssertionResult says(const std::optional<Error>& error, std::string_view part);
template <class T>
testing::AssertionResult fails_with(const Result<T>& result, std::string_view part) {
    return says(result ? std::nullopt : std::optional(result.error()), part);
}

/// For EXPECT_TRUE: whether a Result has the value, with its error's message when it has not.
template <class T>
testing::AssertionResult succeeded(const Result<T>& result) {
    return result ? testing::AssertionSuccess()
                  : testing::AssertionFailure() << result.error().message();
}

}  // namespace berth::tls_test
