// SPDX-License-Identifier: Apache-2.0
// splice() and sendfile(). Inside the simulation the bytes are copied like any others. sendfile()
// may have the real kernel on one of its sides, for instance to send a file that exists.
#include "src/engine/simulation/pipe.h"
#include "src/engine/simulation/regular_file.h"
#include "src/engine/simulation/simulated_calls.h"

#include <sys/uio.h>

#include <unistd.h>
#include <algorithm>

namespace berth::internal::simulated {
namespace {

constexpr std::size_t kChunk = 65'536;

constexpr off_t kWhereItIs = -1;

// One side of a copy: a simulated file or, for sendfile() only, a real descriptor.
struct Side {
    std::shared_ptr<File> file;  // null: the real kernel's
    int fd = -1;

    bool is_missing() const noexcept { return file == nullptr && is_simulated(fd); }
};

Side side_of(int fd) { return {active_kernel->descriptors.find(fd), fd}; }

ssize_t with_errno(ssize_t result) noexcept { return result < 0 ? -errno : result; }

ssize_t read_some(const Side& side, std::span<std::byte> buffer, off_t offset) {
    if (side.file == nullptr) {
        const iovec part{buffer.data(), buffer.size()};
        return with_errno(kKernelCalls.preadv2(side.fd, &part, 1, offset, 0));
    }
    Incoming incoming{.data = Sink(buffer.data(), buffer.size()), .from = {}, .control = {}};
    return offset == kWhereItIs ? side.file->read(incoming)
                                : side.file->read_at(incoming, static_cast<std::size_t>(offset));
}

ssize_t write_some(const Side& side, std::span<const std::byte> bytes, off_t offset) {
    if (side.file == nullptr) {
        const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
        return with_errno(kKernelCalls.pwritev2(side.fd, &part, 1, offset, 0));
    }
    Outgoing outgoing{.data = Source(bytes.data(), bytes.size()), .control = {}};
    return offset == kWhereItIs ? side.file->write(outgoing)
                                : side.file->write_at(outgoing, static_cast<std::size_t>(offset));
}

// The two positions of a splice(): null for a pipe, and for a file that is read where it is.
struct Offsets {
    off_t* in;
    off_t* out;
};

off_t value_of(const off_t* offset) noexcept { return offset == nullptr ? kWhereItIs : *offset; }

ssize_t move_on(off_t* offset, ssize_t count) noexcept {
    if (offset != nullptr && count > 0) {
        *offset += count;
    }
    return count;
}

ssize_t splice_from_pipe(PipeEnd& pipe, const Side& out, off_t* offset, std::size_t size) {
    Bytes bytes(std::min(size, kChunk));
    const ssize_t available = pipe.peek(bytes);
    if (available <= 0) {
        return available;
    }
    bytes.resize(static_cast<std::size_t>(available));
    const ssize_t count = write_some(out, bytes, value_of(offset));
    if (count > 0) {
        Incoming taken{
            .data = Sink(bytes.data(), static_cast<std::size_t>(count)), .from = {}, .control = {}};
        pipe.read(taken);
    }
    return move_on(offset, count);
}

ssize_t splice_to_pipe(const Side& in, off_t* offset, PipeEnd& pipe, std::size_t size) {
    const ssize_t room = pipe.room();
    if (room <= 0) {
        return room;
    }
    Bytes bytes(std::min({size, kChunk, static_cast<std::size_t>(room)}));
    const ssize_t count = read_some(in, bytes, value_of(offset));
    if (count > 0) {
        Outgoing outgoing{.data = Source(bytes.data(), static_cast<std::size_t>(count)),
                          .control = {}};
        pipe.write(outgoing);
    }
    return move_on(offset, count);
}

ssize_t splice_sides(const Side& in, const Side& out, const Offsets& offsets, std::size_t size) {
    if (in.is_missing() || out.is_missing()) {
        return -EBADF;
    }
    auto* from = dynamic_cast<PipeEnd*>(in.file.get());
    auto* to = dynamic_cast<PipeEnd*>(out.file.get());
    if ((from != nullptr && offsets.in != nullptr) || (to != nullptr && offsets.out != nullptr)) {
        return -ESPIPE;
    }
    if (in.file == nullptr || out.file == nullptr || (from == nullptr && to == nullptr)) {
        return -EINVAL;
    }
    if (size == 0) {
        return 0;
    }
    return from != nullptr ? splice_from_pipe(*from, out, offsets.out, size)
                           : splice_to_pipe(in, offsets.in, *to, size);
}

// The position of a file that a sendfile() without an offset reads from, and moves.
off_t position_of(const Side& side) {
    const auto* file = dynamic_cast<const RegularFile*>(side.file.get());
    return file != nullptr ? static_cast<off_t>(file->position())
                           : with_errno(::lseek(side.fd, 0, SEEK_CUR));
}

void set_position(const Side& side, off_t position) {
    if (auto* file = dynamic_cast<RegularFile*>(side.file.get())) {
        file->set_position(static_cast<std::size_t>(position));
    } else {
        ::lseek(side.fd, position, SEEK_SET);
    }
}

// Reads at a position, which moves over no more than was written.
ssize_t copy_from(const Side& in, off_t start, const Side& out, std::size_t size) {
    Bytes buffer(std::min(size, kChunk));
    ssize_t total = 0;
    while (static_cast<std::size_t>(total) < size) {
        const std::size_t wanted = std::min(buffer.size(), size - static_cast<std::size_t>(total));
        const ssize_t got = read_some(in, std::span(buffer).first(wanted), start + total);
        if (got <= 0) {
            return total > 0 ? total : got;
        }
        const auto bytes = std::span(buffer).first(static_cast<std::size_t>(got));
        const ssize_t count = write_some(out, bytes, kWhereItIs);
        if (count <= 0) {
            return total > 0 ? total : count;
        }
        total += count;
        if (count < got) {
            break;
        }
    }
    return total;
}

ssize_t send_file(const Side& in, off_t* offset, const Side& out, std::size_t size) {
    if (in.is_missing() || out.is_missing()) {
        return -EBADF;
    }
    if (in.file != nullptr && dynamic_cast<RegularFile*>(in.file.get()) == nullptr) {
        return -EINVAL;
    }
    const off_t start = offset != nullptr ? *offset : position_of(in);
    if (start < 0) {
        return start;
    }
    const ssize_t count = copy_from(in, start, out, size);
    if (count > 0 && offset != nullptr) {
        *offset = start + count;
    } else if (count > 0) {
        set_position(in, start + count);
    }
    return count;
}

}  // namespace

ssize_t splice(int in, off_t* in_offset, int out, off_t* out_offset, size_t size, unsigned flags) {
    if (!is_simulated(in) && !is_simulated(out)) {
        return kKernelCalls.splice(in, in_offset, out, out_offset, size, flags);
    }
    Call call(*active_kernel, CallKind::splice, in, size);
    return call.run(nullptr, [&]() -> std::int64_t {
        return splice_sides(side_of(in), side_of(out), {in_offset, out_offset}, size);
    });
}

ssize_t sendfile(int out, int in, off_t* offset, size_t size) {
    if (!is_simulated(in) && !is_simulated(out)) {
        return kKernelCalls.sendfile(out, in, offset, size);
    }
    const std::shared_ptr<File> target = active_kernel->descriptors.find(out);
    Call call(*active_kernel, CallKind::sendfile, out, size);
    return call.run(target.get(), [&]() -> std::int64_t {
        const std::size_t limit = call.fault().is_cut() ? call.fault().byte_limit : size;
        return send_file(side_of(in), offset, side_of(out), std::min(size, limit));
    });
}

}  // namespace berth::internal::simulated
