// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/stream_end.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;

// A name that no other socket of the scenario has, so that whoever accepts knows it.
Endpoint own_name(const Endpoint& remote, std::uint64_t number) {
    if (remote.is_unix()) {
        return Endpoint::unix_path("@client-" + std::to_string(number)).value();
    }
    return Address::parse("127.1." + std::to_string(number / 250) + "." +
                          std::to_string(number % 250 + 1))
        .value();
}

}  // namespace

std::string name_of(const Endpoint& endpoint) {
    return endpoint.is_unix() ? endpoint.to_string() : endpoint.address().with_port(0).to_string();
}

StreamEnd::Send::Send(StreamEnd& end, Flow::Chunk& what)
    : chunk(what), operation(end.world_, end.is_closed_, [&end, this] {
          chunk.sent = operation.sent;
          end.note_part(chunk);
          end.failed(operation.system_errno());
          if (end.world_.dice.chance(0.2)) end.act();
      }) {}

StreamEnd::LentReceive::LentReceive(StreamEnd& end)
    : arrival(end.await_arrival()), operation(end.world_, end.is_closed_, [&end, this] {
          if (operation.data.system_errno() != operation.system_errno()) {
              end.world_.findings.add("a lent receive says one error, its data another");
          }
          Lent data = std::move(operation.data);
          end.received(*arrival, data.bytes(), operation.system_errno());
          if (data && !end.is_closed_ && end.world_.dice.chance(0.1))
              end.kept_.push_back(std::move(data));
      }) {}

StreamEnd::OwnReceive::OwnReceive(StreamEnd& end, std::size_t size)
    : arrival(end.await_arrival()),
      buffer(size),
      operation(end.world_, end.is_closed_, [&end, this] {
          // What has no room says nothing of the stream.
          const bool is_empty = buffer.empty() && !operation.has_failed();
          end.received(*arrival, std::span(buffer).first(operation.count()),
                       is_empty ? ECANCELED : operation.system_errno());
      }) {
    if (end.world_.dice.chance(0.3)) {
        const std::size_t cut = end.world_.dice.below(size + 1);
        parts = {{buffer.data(), cut}, {nullptr, 0}, {buffer.data() + cut, size - cut}};
    }
}

StreamEnd::StreamEnd(World& world, const Endpoint& remote)
    : Actor(world),
      connection_(std::make_shared<Connection>()),
      is_client_(true),
      connect_(world, is_closed_, [this] { connected(); }),
      room_(world, is_closed_, [this] { failed(room_.system_errno()); }),
      closing_(world, is_closed_, [] {}) {
    connect(remote);
}

StreamEnd::StreamEnd(World& world, Stream stream, std::shared_ptr<Connection> connection,
                     bool is_client)
    : Actor(world),
      stream_(std::move(stream)),
      connection_(std::move(connection)),
      is_client_(is_client),
      is_connected_(true),
      connect_(world, is_closed_, [] {}),
      room_(world, is_closed_, [this] { failed(room_.system_errno()); }),
      closing_(world, is_closed_, [] {}) {
    receive();
}

void StreamEnd::connect(const Endpoint& remote) {
    const Endpoint name = own_name(remote, world_.next_name++);
    Result<Stream> stream = Stream::open(world_.loop(), remote, {.local = name});
    if (!stream) {
        is_closed_ = true;  // out of descriptors, or of memory
        return;
    }
    stream_ = std::move(*stream);
    connection_->name = name_of(name);
    world_.connections.emplace(connection_->name, connection_);
    connect_.start(world_.dice.deadline(3s),
                   [this](Deadline deadline) { return stream_.connect(connect_, deadline); });
}

void StreamEnd::connected() {
    if (connect_.has_failed() || is_closed_) {
        disturb();
        if (world_.dice.chance(0.7)) close();
        return;
    }
    is_connected_ = true;
    receive();
    send();
}

void StreamEnd::act() {
    if (is_closed_ || world_.is_winding_down) {
        kept_.clear();
        return;
    }
    if (!is_connected_) {
        if (world_.dice.chance(0.1)) connect_.cancel();
        if (world_.dice.chance(0.05)) close();
        return;
    }
    act_on_traffic();
}

void StreamEnd::act_on_traffic() {
    const std::uint64_t roll = world_.dice.below(100);
    if (roll < 22) {
        send();
    } else if (roll < 26) {
        send_file();
    } else if (roll < 30) {
        send_pipe();
    } else if (roll < 35) {
        receive_into_pipe();
    } else if (roll < 45) {
        write();
    } else if (roll < 75) {
        receive();
    } else if (roll < 83) {
        cancel_one();
    } else if (roll < 86) {
        throw_one_away();
    } else if (roll < 90) {
        wait_for_room();
    } else if (roll < 93) {
        kept_.clear();
    } else if (roll < 95) {
        shut_down();
    } else if (roll < 96) {
        break_it();
    } else if (roll < 98) {
        close();
    }
}

void StreamEnd::cancel_one() {
    const std::uint64_t which = world_.dice.below(6);
    if (which == 0 && !sends_.empty()) {
        world_.dice.one_of(sends_)->operation.cancel();
    } else if (which == 1 && !lent_receives_.empty()) {
        world_.dice.one_of(lent_receives_)->operation.cancel();
    } else if (which == 2 && !file_sends_.empty()) {
        world_.dice.one_of(file_sends_)->operation.cancel();
    } else if (which == 3 && !pipe_sends_.empty()) {
        world_.dice.one_of(pipe_sends_)->operation.cancel();
    } else if (which == 4 && !pipe_receives_.empty()) {
        world_.dice.one_of(pipe_receives_)->operation.cancel();
    } else if (!own_receives_.empty()) {
        world_.dice.one_of(own_receives_)->operation.cancel();
    } else {
        room_.cancel();
    }
}

// Not from inside a completion of the same kind: the caller may be what is thrown away.
void StreamEnd::throw_one_away() {
    if (!sends_.empty() && world_.dice.chance(0.4)) {
        const std::size_t index = world_.dice.below(sends_.size());
        sends_[index]->chunk.sent = sends_[index]->operation.sent;
        note_part(sends_[index]->chunk);
        if (sends_[index]->operation.has_result()) disturb();
        sends_.erase(sends_.begin() + static_cast<std::ptrdiff_t>(index));
    } else if (!lent_receives_.empty()) {
        const std::size_t index = world_.dice.below(lent_receives_.size());
        in().is_unknown = in().is_unknown || lent_receives_[index]->operation.has_result();
        if (lent_receives_[index]->operation.has_result()) disturb();
        lent_receives_[index]->arrival->is_there = true;
        lent_receives_.erase(lent_receives_.begin() + static_cast<std::ptrdiff_t>(index));
    }
}

void StreamEnd::wait_for_room() {
    if (room_.is_free()) {
        room_.start(world_.dice.deadline(20ms),
                    [this](Deadline deadline) { return stream_.wait_for_room(room_, deadline); });
    }
}

void StreamEnd::shut_down() {
    is_shut_down_ = true;
    const InsideCall inside(world_);
    if (!stream_.shut_down_write()) disturb();
}

void StreamEnd::break_it() {
    if (world_.has_broken_connections && stream_.is_open() && world_.dice.chance(0.5)) {
        disturb();
        world_.simulation().break_connection(stream_.fd(),
                                             world_.dice.chance(0.5) ? ECONNRESET : ETIMEDOUT);
    }
}

void StreamEnd::close() {
    if (std::exchange(is_closed_, true)) {
        return;
    }
    // A unix stream cannot be broken off: what could not be sent is missing before its end.
    const Result<Endpoint> local = stream_.local_endpoint();
    const bool is_unix = !local || local->is_unix();
    if (is_unix && (world_.has_failing_sends || world_.has_broken_connections)) {
        out().may_be_cut = true;
    }
    const std::uint64_t roll = world_.dice.below(10);
    if (roll == 0) {
        disturb();
        const InsideCall inside(world_);
        stream_.reset();
    } else if (roll == 1 && is_connected_) {
        disturb();
        const InsideCall inside(world_);
        static_cast<void>(stream_.release());
    } else if (roll < 6) {
        closing_.expect();
        closing_.always_completes = true;
        const InsideCall inside(world_);
        stream_.close(closing_);
    } else {
        const InsideCall inside(world_);
        stream_ = Stream();
    }
    kept_.clear();
}

// What was to follow a part of a send is lost.
void StreamEnd::note_part(const Flow::Chunk& chunk) noexcept {
    if (chunk.sent > 0 && chunk.sent < chunk.bytes.size()) {
        out().may_be_cut = true;
    }
}

void StreamEnd::disturb() noexcept {
    in().may_be_cut = true;
    out().may_be_cut = true;
}

// Whoever has seen an error may see an end after it that is none.
void StreamEnd::failed(int system_errno) noexcept {
    if (system_errno != 0 && system_errno != ECANCELED && system_errno != ETIMEDOUT) {
        disturb();
    }
    if (system_errno == ETIMEDOUT && world_.has_broken_connections) {
        disturb();
    }
}

}  // namespace berth::test::stress
