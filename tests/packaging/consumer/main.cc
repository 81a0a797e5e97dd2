// SPDX-License-Identifier: Apache-2.0
#include <berth/loop.h>
#include <berth/ports.h>
#include <berth/task.h>
#include <berth/timer.h>

#include <cstdio>

namespace {

berth::Result<bool> take_from_a_range_of_one() {
    berth::TableOptions options;
    options.range = berth::PortRange{50000, 50000};
    options.honour_reserved = false;
    options.reconcile_at_start = false;
    berth::PortTable ports = BERTH_TRY(berth::PortTable::create(berth::Protocol::udp, options));
    const berth::Port port = BERTH_TRY(ports.take());
    return port.number() == 50000;
}

berth::Task<bool> sleep_for_a_moment(berth::Loop& loop) {
    const berth::Result<void> slept =
        co_await berth::sleep(loop, berth::within(std::chrono::milliseconds(1)));
    co_return slept.has_value();
}

berth::Result<bool> run_a_loop() {
    berth::Loop loop = BERTH_TRY(berth::Loop::create());
    return berth::block_on(loop, sleep_for_a_moment(loop));
}

}  // namespace

int main() {
    const berth::Result<bool> took = take_from_a_range_of_one();
    const berth::Result<bool> ran = run_a_loop();
    for (const berth::Result<bool>* outcome : {&took, &ran}) {
        if (!*outcome) {
            std::fprintf(stderr, "%s\n", outcome->error().message().c_str());
        }
    }
    return took.value_or(false) && ran.value_or(false) ? 0 : 1;
}
