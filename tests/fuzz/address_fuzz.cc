// SPDX-License-Identifier: Apache-2.0
// What Address::parse() accepts is printed in a form that it accepts again, as the same address.
#include "tests/fuzz/fuzz_input.h"

#include <berth/address.h>

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Result<Address> address = Address::parse(test::text_of(data, size));
    if (!address) {
        test::require(!address.error().message().empty(), "a refused address has a reason");
        return 0;
    }
    const Result<Address> again = Address::parse(address->to_string());
    test::require(again.has_value(), "a printed address can be parsed");
    test::require(*again == *address, "a printed address is the same one");
    return 0;
}
