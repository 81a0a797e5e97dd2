// SPDX-License-Identifier: Apache-2.0
// Certificates and keys as texts.
#include "src/tls/pem.h"
#include "tests/fuzz/fuzz_input.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(test::text_of(data, size));
    const std::string none;
    const std::string pem =
        "-----BEGIN CERTIFICATE-----\n" + text + "\n-----END CERTIFICATE-----\n";
    for (const std::string& certificates : {text, pem}) {
        static_cast<void>(internal::load_trusted_certificates({none, certificates, none, false}));
        static_cast<void>(
            internal::load_identity({.certificate_text = certificates, .key_text = text}));
    }
    return 0;
}
