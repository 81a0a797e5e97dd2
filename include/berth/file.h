// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files on the loop: regular files, pipes, fifos, terminals, and descriptors that were inherited,
// such as standard input. A File owns its descriptor, or borrows one that goes on living elsewhere.
//
// Its O_NONBLOCK is never changed, for that would change it for every process that shares the
// descriptor (a shell and its terminal). The engines of readiness ask poll() before each call
// instead; where two processes read from one pipe, one of them can so be left waiting. A regular
// file is always ready: reading it waits for the disk, with every engine but io_uring.
//
// A write to a pipe that nobody reads fails with `closed` and kills nobody: SIGPIPE is blocked in
// the loop's thread while it has a File that could raise it (any but a regular one). That goes for
// all of this thread's writes. When the last of them has gone, the mask is as it was before.
//
// Loop thread only. A file goes before its loop.

#include <berth/awaitable.h>
#include <berth/descriptor.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace berth {

class FileReadAwaiter;
class FileWriteAwaiter;
class WriteAllAwaiter;

class BERTH_API File {
public:
    File() noexcept = default;
    /// `flags` and `mode` are those of open(2); close-on-exec is added. Opening waits for the disk,
    /// and a fifo without O_NONBLOCK for its other end.
    /// **Errors:** permission_denied, descriptors_exhausted, out_of_memory, system (ENOENT, …).
    static Result<File> open(Loop& loop, const std::string& path, int flags, mode_t mode = 0666);
    /// Takes over an open file. **Errors:** invalid_argument, out_of_memory,
    /// descriptors_exhausted.
    static Result<File> adopt(Loop& loop, Descriptor file);
    /// Uses a descriptor that stays somebody else's, and open: standard input, say. It must stay
    /// open until this file is closed. **Errors:** as adopt().
    static Result<File> borrow(Loop& loop, int fd);

    File(File&& other) noexcept { take_over(other); }
    File& operator=(File&& other) noexcept {
        if (this != &other) {
            close();
            take_over(other);
        }
        return *this;
    }
    /// As close().
    ~File() { close(); }

    bool is_open() const noexcept { return slot_.is_valid(); }
    /// -1 when closed.
    int fd() const noexcept { return fd_; }

    /// Reads at `offset`, or, with -1 and of what has no offsets, from where the file stands.
    /// count() is 0 at the end. **Errors:** invalid_argument, closed, system (EIO of a terminal
    /// whose other side is gone, EISDIR, …), timed_out, cancelled.
    Start read(ReadOperation& operation, std::span<std::byte> buffer, std::int64_t offset = -1,
               Deadline deadline = {}) noexcept {
        operation.buffer = buffer;
        operation.offset = offset;
        return internal::submit(loop_, operation, slot_, deadline);
    }
    FileReadAwaiter read(std::span<std::byte> buffer, std::int64_t offset = -1,
                         Deadline deadline = {}) noexcept;

    /// Writes at `offset`, or, with -1, where the file stands; count() may be less than there is.
    /// **Errors:** closed (nobody reads the pipe), invalid_argument, system (ENOSPC, EFBIG, …),
    /// timed_out, cancelled.
    Start write(WriteOperation& operation, std::span<const std::byte> bytes,
                std::int64_t offset = -1, Deadline deadline = {}) noexcept {
        operation.buffer = bytes;
        operation.offset = offset;
        return internal::submit(loop_, operation, slot_, deadline);
    }
    FileWriteAwaiter write(std::span<const std::byte> bytes, std::int64_t offset = -1,
                           Deadline deadline = {}) noexcept;
    /// Writes all of it, in as many writes as that takes. After an error a part may have been
    /// written; who must know which uses write(). **Errors:** as write().
    WriteAllAwaiter write_all(std::span<const std::byte> bytes, std::int64_t offset = -1,
                              Deadline deadline = {}) noexcept;

    /// Cancels its operations, and closes the descriptor unless it was borrowed.
    void close() noexcept;
    /// Gives the descriptor to the caller; its operations are cancelled. Of a borrowed one nothing
    /// is given.
    Descriptor release() noexcept;

private:
    File(internal::LoopState* loop, internal::SlotHandle slot, int fd, bool is_borrowed) noexcept
        : loop_(loop), slot_(slot), fd_(fd), is_borrowed_(is_borrowed) {}
    static Result<File> attach(Loop& loop, int fd, bool is_borrowed);
    void take_over(File& other) noexcept;
    void let_go(bool keeps_descriptor) noexcept;

    internal::LoopState* loop_ = nullptr;
    internal::SlotHandle slot_;
    int fd_ = -1;
    bool is_borrowed_ = false;
    bool blocks_pipe_signal_ = false;
};

class FileReadAwaiter final : public Awaiter<ReadOperation> {
public:
    FileReadAwaiter(internal::LoopState* loop, internal::SlotHandle handle,
                    std::span<std::byte> room, std::int64_t where, Deadline deadline) noexcept
        : Awaiter(loop, handle, deadline) {
        buffer = room;
        offset = where;
    }

    /// 0 at the end of the file.
    Result<std::size_t> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(error());
        }
        return count();
    }
};

class FileWriteAwaiter final : public Awaiter<WriteOperation> {
public:
    FileWriteAwaiter(internal::LoopState* loop, internal::SlotHandle handle,
                     std::span<const std::byte> bytes, std::int64_t where,
                     Deadline deadline) noexcept
        : Awaiter(loop, handle, deadline) {
        buffer = bytes;
        offset = where;
    }

    Result<std::size_t> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(error());
        }
        return count();
    }
};

/// A WriteOperation that goes on until all is written.
class BERTH_API WriteAllAwaiter final : public Awaiter<WriteOperation> {
public:
    WriteAllAwaiter(internal::LoopState* loop, internal::SlotHandle handle,
                    std::span<const std::byte> bytes, std::int64_t where,
                    Deadline deadline) noexcept;

    bool await_ready() noexcept;
    Result<void> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(error());
        }
        return {};
    }

private:
    static void go_on(Operation& operation) noexcept;
    Start write_rest() noexcept;
    bool is_finished() noexcept;

    internal::LoopState* loop_of_file_;
    internal::SlotHandle slot_of_file_;
    Deadline deadline_;
    Completion resume_;
};

inline FileReadAwaiter File::read(std::span<std::byte> buffer, std::int64_t offset,
                                  Deadline deadline) noexcept {
    return {loop_, slot_, buffer, offset, deadline};
}
inline FileWriteAwaiter File::write(std::span<const std::byte> bytes, std::int64_t offset,
                                    Deadline deadline) noexcept {
    return {loop_, slot_, bytes, offset, deadline};
}
inline WriteAllAwaiter File::write_all(std::span<const std::byte> bytes, std::int64_t offset,
                                       Deadline deadline) noexcept {
    return {loop_, slot_, bytes, offset, deadline};
}

struct Pipe {
    Descriptor read_end;
    Descriptor write_end;
};

/// A new pipe, close-on-exec and blocking. **Errors:** descriptors_exhausted.
BERTH_API Result<Pipe> make_pipe();

}  // namespace berth
