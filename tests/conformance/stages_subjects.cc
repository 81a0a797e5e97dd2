// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/stages_subjects.h"

#include "src/base/system_calls.h"
#include "src/engine/simulation/simulation.h"
#include "src/loop/loop_state.h"

#include <berth/event.h>
#include <berth/timer.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <utility>

namespace berth::test {
namespace {

using internal::calls;
using internal::DescriptorKind;
using internal::Simulation;

// Where all of it goes out of and into.
std::array<std::byte, 64 * 1024> block;

std::array<int, 2> socket_pair(int type) {
    if (Simulation* simulation = Simulation::active()) {
        return simulation->make_socket_pair(type);
    }
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, type, 0, pair.data()), 0);
    return pair;
}

std::array<int, 2> pipe_ends() {
    if (Simulation* simulation = Simulation::active()) {
        return simulation->make_pipe();
    }
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    return ends;
}

int file() {
    if (Simulation* simulation = Simulation::active()) {
        return simulation->make_file("contents");
    }
    const int memory = ::memfd_create("contents", 0);
    EXPECT_EQ(::write(memory, "contents", 8), 8);
    return memory;
}

void send_some(int fd) { EXPECT_EQ(calls().send(fd, "xyz", 3, MSG_DONTWAIT), 3); }

void fill(int fd, std::size_t size) {
    while (calls().send(fd, block.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
}

void drain(int fd) {
    while (calls().recv(fd, block.data(), block.size(), MSG_DONTWAIT) > 0) {
    }
}

// Both leave the pipe's mode as it was: a simulated one does not wait, and needs no mode.
template <class Call>
void repeat_without_waiting(int fd, Call call) {
    const bool is_real = Simulation::active() == nullptr;
    const int mode = is_real ? ::fcntl(fd, F_GETFL) : 0;
    if (is_real) ::fcntl(fd, F_SETFL, mode | O_NONBLOCK);
    const iovec part = {block.data(), 4096};
    while (call(&part) > 0) {
    }
    if (is_real) ::fcntl(fd, F_SETFL, mode);
}

void fill_pipe(int fd) {
    repeat_without_waiting(
        fd, [fd](const iovec* part) { return calls().pwritev2(fd, part, 1, -1, 0); });
}

void drain_pipe(int fd) {
    repeat_without_waiting(fd,
                           [fd](const iovec* part) { return calls().preadv2(fd, part, 1, -1, 0); });
}

template <class Op>
class SubjectOf final : public Subject {
public:
    explicit SubjectOf(Loop& loop) : Subject(loop) {}
    ~SubjectOf() override { operation_.reset(); }

    Operation& operation() override { return *operation_; }
    unsigned completion_count() const override { return operation_->completion_count; }
    void start(Deadline deadline) override {
        if (!operation_) {
            operation_.emplace();
            operation_->then = then_;
        }
        prepare(*operation_);
        submit(*operation_, deadline);
    }
    void set_then(std::function<void()> then) override {
        then_ = std::move(then);
        if (operation_) operation_->then = then_;
    }
    void throw_away() override { operation_.reset(); }

    std::function<void(Op&)> prepare = [](Op&) {};
    std::function<void(Op&, Deadline)> submit = [this](Op& operation, Deadline deadline) {
        internal::submit(&loop_.state(), operation, slot_, deadline);
    };
    Op& current() { return *operation_; }
    Loop& loop() { return loop_; }
    using Subject::attach;
    using Subject::memory_;
    using Subject::own;

private:
    std::optional<Watched<Op>> operation_{std::in_place};
    std::function<void()> then_;
};

// Waits for input on one end of a pair; the other end is to send it.
template <class Op>
std::unique_ptr<Subject> input(Loop& loop, int type, std::function<void(Op&)> prepare) {
    auto subject = std::make_unique<SubjectOf<Op>>(loop);
    const auto [here, there] = socket_pair(type);
    subject->own(there);
    subject->attach(here, type == SOCK_STREAM ? DescriptorKind::stream : DescriptorKind::datagram);
    subject->prepare = std::move(prepare);
    subject->let = [there] { send_some(there); };
    return subject;
}

// Waits for room on one end of a pair; it comes when the other end reads.
template <class Op>
std::unique_ptr<Subject> output(Loop& loop, int type, std::function<void(Op&)> prepare) {
    auto subject = std::make_unique<SubjectOf<Op>>(loop);
    const auto [here, there] = socket_pair(type);
    fill(here, type == SOCK_STREAM ? block.size() : 1000);
    if (type == SOCK_STREAM) fill(here, 1);
    subject->own(there);
    subject->attach(here, type == SOCK_STREAM ? DescriptorKind::stream : DescriptorKind::datagram);
    subject->prepare = std::move(prepare);
    subject->let = [there] { drain(there); };
    return subject;
}

template <class Op>
std::unique_ptr<Subject> on_pipe(Loop& loop, bool reads, std::function<void(Op&)> prepare) {
    auto subject = std::make_unique<SubjectOf<Op>>(loop);
    const auto [out, in] = pipe_ends();
    if (!reads) fill_pipe(in);
    subject->own(reads ? in : out);
    subject->attach(reads ? out : in, DescriptorKind::other);
    subject->prepare = std::move(prepare);
    subject->let = [reads, other = reads ? in : out] {
        const iovec part = {block.data(), 3};
        reads ? static_cast<void>(calls().pwritev2(other, &part, 1, -1, 0)) : drain_pipe(other);
    };
    return subject;
}

struct Listening {
    int fd = -1;
    sockaddr_in address{};
};

Listening listen(int backlog) {
    Listening made;
    made.fd = calls().socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    made.address.sin_family = AF_INET;
    made.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* address = reinterpret_cast<sockaddr*>(&made.address);
    socklen_t size = sizeof made.address;
    EXPECT_EQ(calls().bind(made.fd, address, size), 0);
    EXPECT_EQ(calls().listen(made.fd, backlog), 0);
    EXPECT_EQ(calls().getsockname(made.fd, address, &size), 0);
    return made;
}

int connect_to(const Listening& listener) {
    const int fd = calls().socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    calls().connect(fd, reinterpret_cast<const sockaddr*>(&listener.address),
                    sizeof listener.address);
    return fd;
}

std::unique_ptr<Subject> accept_subject(Loop& loop) {
    auto subject = std::make_unique<SubjectOf<AcceptOperation>>(loop);
    const Listening listener = listen(10);
    subject->attach(listener.fd, DescriptorKind::listener);
    auto accepted = std::make_shared<int>(-1);
    subject->memory_ = accepted;
    auto* made = subject.get();
    subject->prepare = [accepted](AcceptOperation& accept) {
        accept.accepted = std::span(accepted.get(), 1);
    };
    subject->let = [made, listener] { made->own(connect_to(listener)); };
    return subject;
}

// The backlog is full, and the kernel drops what comes.
std::unique_ptr<Subject> connect_subject(Loop& loop) {
    auto subject = std::make_unique<SubjectOf<ConnectOperation>>(loop);
    const Listening listener = listen(0);
    const int fd = calls().socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    subject->own(connect_to(listener));
    subject->own(listener.fd);
    subject->attach(fd, DescriptorKind::stream);
    subject->prepare = [listener](ConnectOperation& connect) {
        connect.remote = Endpoint::from(reinterpret_cast<const sockaddr*>(&listener.address),
                                        sizeof listener.address)
                             .value();
        connect.has_started = false;
    };
    auto* made = subject.get();
    subject->let = [made, listener] {
        int accepted = 0;
        while (accepted >= 0) {
            accepted = calls().accept4(listener.fd, nullptr, nullptr, SOCK_NONBLOCK);
            if (accepted >= 0) made->own(accepted);
        }
    };
    return subject;
}

std::unique_ptr<Subject> splice_subject(Loop& loop) {
    const auto [out, in] = pipe_ends();
    auto subject = input<SpliceOperation>(loop, SOCK_STREAM, [in](SpliceOperation& splice) {
        splice.pipe = in;
        splice.size = 3;
    });
    auto& made = static_cast<SubjectOf<SpliceOperation>&>(*subject);
    made.own(out);
    made.own(in);
    return subject;
}

std::unique_ptr<Subject> send_file_subject(Loop& loop) {
    const int contents = file();
    auto subject =
        output<SendFileOperation>(loop, SOCK_STREAM, [contents](SendFileOperation& send) {
            send.file = contents;
            send.size = 8;
            send.sent = 0;
        });
    static_cast<SubjectOf<SendFileOperation>&>(*subject).own(contents);
    return subject;
}

std::unique_ptr<Subject> timer_subject(Loop& loop) {
    auto subject = std::make_unique<SubjectOf<TimerOperation>>(loop);
    subject->has_deadline = false;
    auto* made = subject.get();
    subject->submit = [made](TimerOperation& timer, Deadline) {
        timer.start(made->loop(), within(std::chrono::hours(1)));
    };
    subject->let = [made] {
        made->current().restart(made->loop(), within(std::chrono::nanoseconds(0)));
    };
    return subject;
}

std::unique_ptr<Subject> wait_subject(Loop& loop) {
    auto subject = std::make_unique<SubjectOf<WaitOperation>>(loop);
    auto event = std::make_shared<Event>(loop);
    subject->memory_ = event;
    subject->submit = [event](WaitOperation& wait, Deadline deadline) {
        event->wait(wait, deadline);
    };
    subject->let = [event] { event->set(); };
    return subject;
}

template <class Op>
void into_block(Op& receive) {
    receive.buffer = std::span(block).first(100);
}

void one_datagram(std::array<Datagram, 1>& datagrams) {
    datagrams[0].buffer = std::span(block).first(100);
    datagrams[0].has_peer = false;
}

std::array<Datagram, 1> datagrams;

}  // namespace

Subject::~Subject() {
    if (slot_.is_valid()) {
        loop_.state().detach(slot_, internal::Detach::close);
    }
    for (const int fd : owned_) {
        calls().close(fd);
    }
}

void Subject::attach(int fd, internal::DescriptorKind kind) {
    slot_ = loop_.state().attach(fd, kind).value();
}

const std::vector<SubjectKind>& subject_kinds() {
    static const std::vector<SubjectKind> kinds = {
        {"accept", accept_subject},
        {"connect", connect_subject},
        {"receive",
         [](Loop& loop) {
             return input<ReceiveOperation>(loop, SOCK_STREAM, into_block<ReceiveOperation>);
         }},
        {"receive_lent",
         [](Loop& loop) {
             return input<ReceiveLentOperation>(
                 loop, SOCK_STREAM, [](ReceiveLentOperation& lent) { lent.data.give_back(); });
         }},
        {"send",
         [](Loop& loop) {
             return output<SendOperation>(loop, SOCK_STREAM, [](SendOperation& send) {
                 send.set(std::span(block).first(100));
                 send.sent = 0;
             });
         }},
        {"receive_from",
         [](Loop& loop) {
             return input<ReceiveFromOperation>(loop, SOCK_DGRAM, into_block<ReceiveFromOperation>);
         }},
        {"send_to",
         [](Loop& loop) {
             return output<SendToOperation>(loop, SOCK_DGRAM, [](SendToOperation& send) {
                 send.single = {block.data(), 100};
             });
         }},
        {"receive_batch",
         [](Loop& loop) {
             return input<ReceiveBatchOperation>(loop, SOCK_DGRAM,
                                                 [](ReceiveBatchOperation& receive) {
                                                     one_datagram(datagrams);
                                                     receive.datagrams = datagrams;
                                                 });
         }},
        {"send_batch",
         [](Loop& loop) {
             return output<SendBatchOperation>(loop, SOCK_DGRAM, [](SendBatchOperation& send) {
                 one_datagram(datagrams);
                 send.datagrams = datagrams;
                 send.sent = 0;
             });
         }},
        {"poll",
         [](Loop& loop) {
             return on_pipe<PollOperation>(loop, true,
                                           [](PollOperation& poll) { poll.events = POLLIN; });
         }},
        {"read",
         [](Loop& loop) { return on_pipe<ReadOperation>(loop, true, into_block<ReadOperation>); }},
        {"write",
         [](Loop& loop) {
             return on_pipe<WriteOperation>(loop, false, into_block<WriteOperation>);
         }},
        {"splice", splice_subject},
        {"send_file", send_file_subject},
        {"timer", timer_subject},
        {"wait", wait_subject},
    };
    return kinds;
}

}  // namespace berth::test
