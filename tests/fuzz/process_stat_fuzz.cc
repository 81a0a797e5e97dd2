// SPDX-License-Identifier: Apache-2.0
// /proc/PID/stat: whoever names a process writes a part of it.
#include "src/base/process.h"
#include "tests/fuzz/fuzz_input.h"

#include <string>

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = test::text_of(data, size);
    static_cast<void>(internal::parse_process_stat(text));
    // No name leads astray.
    const std::string file = "1 (" + std::string(text) +
                             ") S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n";
    const std::optional<internal::ProcessStat> stat = internal::parse_process_stat(file);
    test::require(stat && stat->state == 'S', "the state is found behind any name");
    test::require(stat->thread_count == 18 && stat->start_ticks == 20, "so are the numbers");
    return 0;
}
