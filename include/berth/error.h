// SPDX-License-Identifier: Apache-2.0
#pragma once

// Errors are values. Whatever a caller can meet on a healthy host (no port left, permission
// missing, a damaged file) comes back as Result<T>; a broken invariant inside berth aborts.
// An Error is trivially copyable and allocates nothing; the sentence for a person is made by
// message() when somebody wants to read it.

#include <berth/export.h>

#include <array>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace berth {

/// What went wrong, independent of the operation.
enum class Errc : std::uint8_t {
    ports_exhausted,        ///< No local port is left that the kernel would accept.
    port_in_use,            ///< The port that was asked for by number has another holder.
    not_holder,             ///< The port or lease belongs to somebody else, or is gone.
    lease_expired,          ///< The lease's deadline has passed.
    too_many_leases,        ///< The table has no room for another lease.
    address_not_available,  ///< The local address is not on this host, or the family is off.
    invalid_argument,       ///< A value outside what is accepted; the message names it.
    permission_denied,      ///< The kernel or a file's mode says no.
    unsupported,            ///< A kernel feature is missing; the message says which.
    table_mismatch,         ///< The file holds a table of another version, protocol or namespace.
    table_damaged,          ///< The file is not a port table, or its header is broken.
    descriptors_exhausted,  ///< EMFILE or ENFILE.
    out_of_memory,          ///< ENOMEM or ENOBUFS.
    refused,                ///< ECONNREFUSED: nobody listens there.
    reset,                  ///< ECONNRESET: the peer has broken the connection off.
    closed,                 ///< EPIPE, ENOTCONN, ESHUTDOWN: this side can send or receive no more.
    truncated,              ///< The stream ended in the middle of something.
    too_long,               ///< EMSGSIZE: a datagram that does not fit.
    unreachable,            ///< ENETUNREACH or EHOSTUNREACH.
    timed_out,              ///< ETIMEDOUT, or a deadline has passed.
    cancelled,              ///< Ended early, on request.
    name_not_found,         ///< No such name, or one without an address of the family asked for.
    name_server_failed,     ///< The name could not be looked up; it may exist.
    tls_failed,             ///< A broken or refused handshake, or a damaged record.
    certificate_rejected,   ///< The peer's certificate is not accepted; the message says why.
    interrupted,            ///< Given up after repeated interruption.
    system,                 ///< Any other errno, kept in system_errno().
};

/// The lower-case name of an error code, such as "ports_exhausted".
BERTH_API std::string_view to_string(Errc code) noexcept;

/// What failed, on what, and why. Value type, 128 bytes or less, no ownership.
class BERTH_API Error {
public:
    /// `operation` must outlive every copy: pass a string literal. `subject` is copied and cut to
    /// 63 bytes. `reason` and `remedy` are string literals or empty.
    Error(Errc code, const char* operation, std::string_view subject = {}, int system_errno = 0,
          const char* reason = nullptr, const char* remedy = nullptr) noexcept;

    /// Chooses the code from an errno value.
    static Error from_errno(int system_errno, const char* operation, std::string_view subject = {},
                            const char* remedy = nullptr) noexcept;

    Errc code() const noexcept { return code_; }
    /// The errno behind the error; 0 when there was none.
    int system_errno() const noexcept { return system_errno_; }
    const char* operation() const noexcept { return operation_; }
    std::string_view subject() const noexcept;

    /// Figures for ports_exhausted: how many ports of which range, and who holds most of them.
    struct Exhaustion {
        std::uint32_t taken_count = 0;
        std::uint16_t first = 0;
        std::uint16_t last = 0;
        std::uint32_t top_holder_pid = 0;  ///< 0: nobody known, or sockets outside berth.
        std::uint32_t top_holder_count = 0;
    };
    Error& with_exhaustion(const Exhaustion& figures) noexcept;
    const Exhaustion& exhaustion() const noexcept { return exhaustion_; }

    /// One line for a person: what failed, on what, why, and what to do. Allocates.
    std::string message() const;

private:
    const char* operation_;
    const char* reason_;
    const char* remedy_;
    Exhaustion exhaustion_;
    int system_errno_;
    Errc code_;
    std::array<char, 64> subject_;
};
static_assert(std::is_trivially_copyable_v<Error>);
static_assert(sizeof(Error) <= 128);

template <class T>
using Result = std::expected<T, Error>;

namespace internal {

template <class T>
T unwrap(Result<T>&& result) {
    if constexpr (!std::is_void_v<T>) {
        return std::move(*result);
    }
}

}  // namespace internal
}  // namespace berth

/// The value of a Result, or a return of its error from the enclosing function.
#define BERTH_TRY(...)                                                           \
    __extension__({                                                              \
        auto berth_try_result = (__VA_ARGS__);                                   \
        if (!berth_try_result) return std::unexpected(berth_try_result.error()); \
        ::berth::internal::unwrap(std::move(berth_try_result));                  \
    })
