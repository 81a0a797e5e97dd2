// SPDX-License-Identifier: Apache-2.0
#pragma once

// How OpenSSL's failures become Errors. OpenSSL keeps a queue of errors for each thread; whoever
// calls it clears the queue before and takes from it after.

#include <berth/error.h>

#include <string>
#include <string_view>

namespace berth::internal {

/// From this thread's queue, which is empty afterwards. Of several entries the oldest one of libssl
/// counts: those before it come from the depths, those behind it repeat it.
Error take_openssl_error(const char* operation, std::string_view subject) noexcept;

/// OpenSSL's own words for the same entry; the queue is empty afterwards.
const char* take_openssl_reason() noexcept;

/// A path that fits into an Error's subject: the end of a long one tells more than its beginning.
std::string path_subject(std::string_view path);

}  // namespace berth::internal
