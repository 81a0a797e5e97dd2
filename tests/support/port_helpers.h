// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of ports share: sockets of ours and of strangers, and waiting for an event.

#include <berth/address.h>
#include <berth/descriptor.h>
#include <berth/ports.h>
#include <berth/socket.h>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <vector>

namespace berth::test {

inline constexpr Protocol kProtocols[] = {Protocol::udp, Protocol::tcp};
inline constexpr Family kFamilies[] = {Family::ipv4, Family::ipv6};

Address address(const char* text);

/// Fails the test and aborts it by std::bad_expected_access when there is none.
Socket new_socket(Protocol protocol, Family family, bool v6_only = false);
PortTable new_table(Protocol protocol, const TableOptions& options = {});

/// A socket that no table knows of, bound to `local`; closed when the kernel refuses it.
Descriptor stranger(Protocol protocol, const Address& local, bool v6_only = false);
/// The same, listening.
Descriptor listener(const Address& local, int backlog = 4096);
/// A stranger on each port of the range.
std::vector<Descriptor> strangers(Protocol protocol, const Address& any_port, PortRange range);

Address local_of(int fd);
int option_of(int fd, int level, int name);

/// Writes a setting below /proc/sys/net of this network namespace.
void write_setting(const std::string& name, const std::string& text);

/// Asks until it is so; false when it has not become so by the deadline.
template <class Predicate>
bool poll_until(Predicate predicate, std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!predicate()) {
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
        ::poll(nullptr, 0, 1);
    }
    return true;
}

/// For EXPECT_TRUE: whether a Result has the value, with its error's message when it has not.
template <class T>
testing::AssertionResult succeeded(const Result<T>& result) {
    return result ? testing::AssertionSuccess()
                  : testing::AssertionFailure() << result.error().message();
}

template <class T>
testing::AssertionResult failed_with(const Result<T>& result, Errc code) {
    if (result) {
        return testing::AssertionFailure() << "it succeeded";
    }
    return result.error().code() == code ? testing::AssertionSuccess() << result.error().message()
                                         : testing::AssertionFailure() << result.error().message();
}

}  // namespace berth::test
