// SPDX-License-Identifier: Apache-2.0
#include <berth/file.h>

#include "src/base/pipe_signal.h"
#include "src/loop/loop_state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>

namespace berth {
namespace {

using internal::DescriptorKind;
using internal::Detach;
using internal::LoopState;

/// A write that is under way in the kernel may still raise the signal: it stays blocked until the
/// last of them has ended. Without memory for this it stays blocked for good.
class PipeSignalRelease final : public CloseOperation {
public:
    PipeSignalRelease() noexcept : CloseOperation(&PipeSignalRelease::finish) {
        keeps_alive = false;
    }

private:
    static void finish(Operation& operation) noexcept {
        const std::unique_ptr<PipeSignalRelease> self(static_cast<PipeSignalRelease*>(&operation));
        internal::release_pipe_signal();
    }
};

}  // namespace

Result<File> File::open(Loop& loop, const std::string& path, int flags, mode_t mode) {
    Descriptor file;
    do {
        file.reset(::open(path.c_str(), flags | O_CLOEXEC, mode));
    } while (!file.is_open() && errno == EINTR);
    if (!file.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", path));
    }
    return adopt(loop, std::move(file));
}

Result<File> File::adopt(Loop& loop, Descriptor file) {
    File adopted = BERTH_TRY(attach(loop, file.get(), false));
    file.release();
    return adopted;
}

Result<File> File::borrow(Loop& loop, int fd) { return attach(loop, fd, true); }

Result<File> File::attach(Loop& loop, int fd, bool is_borrowed) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) {
        return std::unexpected(Error::from_errno(errno, "adopt", "file"));
    }
    LoopState& state = loop.state();
    const internal::SlotHandle slot = BERTH_TRY(state.attach(fd, DescriptorKind::other));
    File file(&state, slot, fd, is_borrowed);
    if (!S_ISREG(status.st_mode)) {
        internal::block_pipe_signal();
        file.blocks_pipe_signal_ = true;
    }
    return file;
}

void File::take_over(File& other) noexcept {
    loop_ = other.loop_;
    slot_ = std::exchange(other.slot_, {});
    fd_ = std::exchange(other.fd_, -1);
    is_borrowed_ = other.is_borrowed_;
    blocks_pipe_signal_ = std::exchange(other.blocks_pipe_signal_, false);
}

void File::let_go(bool keeps_descriptor) noexcept {
    if (!slot_.is_valid()) {
        return;
    }
    CloseOperation* closing = nullptr;
    if (std::exchange(blocks_pipe_signal_, false)) {
        closing = new (std::nothrow) PipeSignalRelease;
    }
    loop_->detach(std::exchange(slot_, {}), keeps_descriptor ? Detach::keep : Detach::close,
                  closing);
    fd_ = -1;
}

void File::close() noexcept { let_go(is_borrowed_); }

Descriptor File::release() noexcept {
    Descriptor file(is_borrowed_ ? -1 : fd_);
    let_go(true);
    return file;
}

WriteAllAwaiter::WriteAllAwaiter(internal::LoopState* loop, internal::SlotHandle handle,
                                 std::span<const std::byte> bytes, std::int64_t where,
                                 Deadline deadline) noexcept
    : Awaiter(loop, handle, deadline),
      loop_of_file_(loop),
      slot_of_file_(handle),
      deadline_(deadline),
      resume_(complete) {
    buffer = bytes;
    offset = where;
    // Between two writes the loop asks here, and resumes the coroutine only after the last.
    complete = &WriteAllAwaiter::go_on;
}

bool WriteAllAwaiter::await_ready() noexcept {
    if (is_cancelled_before()) {
        return true;
    }
    if (loop_of_file_ != nullptr) {
        // A relative deadline counts from now, not from the last of several writes.
        deadline_ = deadline_.fixed(loop_of_file_->now());
    }
    return write_rest() == Start::done;
}

Start WriteAllAwaiter::write_rest() noexcept {
    do {
        if (internal::submit(loop_of_file_, *this, slot_of_file_, deadline_) == Start::pending) {
            return Start::pending;
        }
    } while (!is_finished());
    return Start::done;
}

// Takes the last write into account.
bool WriteAllAwaiter::is_finished() noexcept {
    if (has_failed()) {
        return true;
    }
    const std::size_t written = count();
    if (written == 0 && !buffer.empty()) {
        result = -EIO;
        return true;
    }
    buffer = buffer.subspan(written);
    offset += offset < 0 ? 0 : static_cast<std::int64_t>(written);
    return buffer.empty();
}

void WriteAllAwaiter::go_on(Operation& operation) noexcept {
    auto& self = static_cast<WriteAllAwaiter&>(operation);
    // A cancellation that came when a result was there already ends what is left.
    if (self.is_finished() || self.is_cancelled_before() || self.write_rest() == Start::done) {
        self.resume_(operation);
    }
}

Result<Pipe> make_pipe() {
    std::array<int, 2> ends = {-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return std::unexpected(Error::from_errno(errno, "open", "pipe"));
    }
    return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace berth
