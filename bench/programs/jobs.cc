// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/jobs.h"

#include "bench/programs/program.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace berth::bench {
namespace {

// The number of the datagram that ends a flow: never one that is counted.
constexpr std::uint64_t kLastNumber = ~std::uint64_t{0};

std::uint64_t number_of(std::span<const std::byte> datagram) noexcept {
    std::uint64_t number = kLastNumber;
    std::memcpy(&number, datagram.data(), std::min(sizeof(number), datagram.size()));
    return number;
}

}  // namespace

void ChurnJob::reset_on_close(int socket) noexcept {
    const linger reset = {1, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

bool DatagramsJob::received(std::span<const std::byte> datagram) noexcept {
    if (datagram.size() < sizeof(std::uint64_t)) {
        is_intact = false;
        return true;
    }
    const std::uint64_t number = number_of(datagram);
    if (number == kLastNumber) {
        return false;
    }
    const auto content = datagram.subspan(sizeof(number));
    is_intact = is_intact && datagram.size() == datagram_size && number >= next_number &&
                pattern_matches(0, datagram_phase(number), content);
    next_number = number + 1;
    ++received_count;
    return true;
}

bool DatagramsJob::fill(std::byte* datagram) noexcept {
    if (next_number == datagram_count) {
        return false;
    }
    write_datagram(next_number++, {datagram, datagram_size});
    return true;
}

std::uint64_t datagram_phase(std::uint64_t number) noexcept {
    // Within the period, so that the content is one piece of it.
    return number % 4096 * sizeof(std::uint64_t);
}

void write_datagram(std::uint64_t number, std::span<std::byte> datagram) noexcept {
    std::memcpy(datagram.data(), &number, sizeof(number));
    std::memcpy(datagram.data() + sizeof(number), pattern().data() + datagram_phase(number),
                datagram.size() - sizeof(number));
}

void write_last_datagram(std::span<std::byte> datagram) noexcept {
    write_datagram(kLastNumber, datagram);
}

}  // namespace berth::bench
