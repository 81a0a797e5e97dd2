// SPDX-License-Identifier: Apache-2.0
#include "src/tls/memory_bio.h"

#include <algorithm>
#include <cstring>

namespace berth::internal {
namespace {

MemoryChannel& channel_of(BIO* bio) noexcept {
    return *static_cast<MemoryChannel*>(BIO_get_data(bio));
}

int read_input(BIO* bio, char* data, std::size_t size, std::size_t* read_size) noexcept {
    auto& input = channel_of(bio).input;
    BIO_clear_retry_flags(bio);
    *read_size = std::min(size, input.size());
    if (*read_size == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    std::memcpy(data, input.data(), *read_size);
    input = input.subspan(*read_size);
    return 1;
}

int write_output(BIO* bio, const char* data, std::size_t size, std::size_t* written) noexcept {
    MemoryChannel& channel = channel_of(bio);
    BIO_clear_retry_flags(bio);
    if (!channel.output.has_room(size)) {
        channel.is_output_full = true;
    } else if (!channel.output.append(std::as_bytes(std::span(data, size)))) {
        channel.is_out_of_memory = true;
    } else {
        *written = size;
    }
    return *written == size ? 1 : 0;
}

long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) noexcept {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* make_method() noexcept {
    const int index = BIO_get_new_index();
    BIO_METHOD* method =
        index != -1 ? BIO_meth_new(BIO_TYPE_SOURCE_SINK | index, "berth memory") : nullptr;
    if (method != nullptr) {
        BIO_meth_set_read_ex(method, read_input);
        BIO_meth_set_write_ex(method, write_output);
        BIO_meth_set_ctrl(method, control);
    }
    return method;
}

}  // namespace

BioHandle make_memory_bio(MemoryChannel& channel) noexcept {
    // A table of functions that every BIO of this kind points to until the program ends.
    static const BIO_METHOD* const method = make_method();
    if (method == nullptr) {
        return nullptr;
    }
    BioHandle bio(BIO_new(method));
    if (bio != nullptr) {
        BIO_set_data(bio.get(), &channel);
        BIO_set_init(bio.get(), 1);
    }
    return bio;
}

}  // namespace berth::internal
