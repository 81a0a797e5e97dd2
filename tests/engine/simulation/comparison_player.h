// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plays a script of calls through berth's table, whichever kernel is behind it, and writes down
// what came of it in words that do not depend on the kernel: descriptors are slots, ports are
// numbered in the order in which they turn up.

#include "src/base/system_calls.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace berth::test {

/// What is done, and numbers from which its slots, sizes and flags are chosen.
struct ScriptStep {
    unsigned what = 0;
    unsigned first = 0;
    unsigned second = 0;
    unsigned third = 0;
};

enum class ScriptFamily : std::uint8_t { tcp, udp, unix };

class ScriptPlayer {
public:
    static constexpr std::size_t kSlotCount = 6;

    /// `epoll`: an epoll instance of the kernel that is used, which the player closes.
    ScriptPlayer(ScriptFamily family, int epoll);
    ~ScriptPlayer();
    ScriptPlayer(const ScriptPlayer&) = delete;
    ScriptPlayer& operator=(const ScriptPlayer&) = delete;

    /// Does a step: "send(2) 10 = EPIPE".
    std::string play(const ScriptStep& step);
    /// What poll() says of each slot, and how much there is to read.
    std::string levels();
    /// What an edge-triggered epoll has to say since the last time, for each slot.
    void collect_edges(std::array<std::uint32_t, kSlotCount>& edges);

private:
    struct Slot {
        int fd = -1;
        int type = 0;
    };

    int fd_of(unsigned number) const { return slots_[number % kSlotCount].fd; }
    std::string open(const ScriptStep& step);
    std::string open_next(const ScriptStep& step);
    std::string bind(const ScriptStep& step);
    std::string bind_like(const ScriptStep& step);
    std::string listen(const ScriptStep& step);
    std::string connect(const ScriptStep& step);
    std::string accept(const ScriptStep& step);
    std::string send(const ScriptStep& step);
    std::string send_to(const ScriptStep& step);
    std::string receive(const ScriptStep& step);
    std::string shutdown(const ScriptStep& step);
    std::string close(const ScriptStep& step);
    std::string read_error(const ScriptStep& step);
    std::string names(const ScriptStep& step);
    std::string set_option(const ScriptStep& step);

    int free_slot() const;
    void fill_slot(std::size_t slot, int fd, int type);
    std::string name_text(const sockaddr_storage& storage, socklen_t size);
    socklen_t address_of(unsigned number, sockaddr_storage& storage) const;
    socklen_t own_address(unsigned number, sockaddr_storage& storage) const;

    ScriptFamily family_;
    int epoll_;
    std::array<Slot, kSlotCount> slots_;
    std::map<std::uint16_t, std::size_t> ports_;
    std::uint8_t next_byte_ = 0;
};

}  // namespace berth::test
