// SPDX-License-Identifier: Apache-2.0
// The programs that `berth bench` starts under `berth run`. Their words are its own affair: nobody
// else calls them.
#include "bench/bind/binder.h"
#include "bench/connect/worker.h"
#include "bench/guest/guest.h"
#include "bench/reproducer/crew.h"

namespace berth::bench {
namespace {

Protocol protocol_of(const std::string& word) {
    return word == "tcp" ? Protocol::tcp : Protocol::udp;
}

// bind PROTOCOL ADDRESS
int run_bind_guest(const std::vector<std::string>& words) {
    const auto local = Address::parse(words[2]);
    if (!local) {
        return 2;
    }
    const auto binder = make_binder("kernel", {.local = *local, .range = {}, .free_ports = {}});
    return answer_questions([&](GuestQuestion) -> Result<GuestAnswer> {
        return GuestAnswer{
            BERTH_TRY(measure_binds(*binder, protocol_of(words[1]), local->family(), {})), {}};
    });
}

}  // namespace

int run_guest(const std::vector<std::string>& words) {
    if (words.size() == 1 && words[0] == "nothing") {
        return 0;  // only whether it can be started was asked
    }
    if (words.size() == 3 && words[0] == "bind") {
        return run_bind_guest(words);
    }
    if (words.size() > 1 && words[0] == "connect") {
        return run_connect_guest({words.begin() + 1, words.end()});
    }
    if (!words.empty() && words[0] == "reproducer") {
        return run_crew_guest({words.begin() + 1, words.end()});
    }
    return 2;
}

}  // namespace berth::bench
