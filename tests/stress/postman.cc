// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/postman.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;

template <class List>
void forget_finished(List& list) {
    std::erase_if(list, [](const auto& one) { return one->is_free(); });
}

}  // namespace

Postman::Send::Send(Postman& postman)
    : single(postman.world_, postman.is_closed_,
             [&postman, this] {
                 postman.letters_[letters.front()].has_failed = single.has_failed();
                 postman.go_on();
             }),
      several(postman.world_, postman.is_closed_, [&postman, this] {
          for (std::size_t i = several.sent; i < letters.size(); ++i) {
              postman.letters_[letters[i]].has_failed = true;
          }
          postman.go_on();
      }) {}

Postman::Receive::Receive(Postman& postman)
    : single(postman.world_, postman.is_closed_,
             [&postman, this] {
                 if (!single.has_failed()) {
                     postman.arrived(std::span(buffers[0]).first(single.count()),
                                     single.is_truncated, single.from);
                 }
                 postman.go_on();
             }),
      several(postman.world_, postman.is_closed_, [&postman, this] {
          for (const Datagram& datagram : std::span(batch).first(several.count())) {
              const Endpoint from = datagram.has_peer ? Endpoint(datagram.peer) : Endpoint();
              postman.arrived(datagram.buffer.first(datagram.size), datagram.is_truncated, from);
          }
          postman.go_on();
      }) {}

Postman::Postman(World& world) : Actor(world), number_(world.next_name++) { open(); }

void Postman::open() {
    Endpoint local = Address::parse("127.2.0." + std::to_string(number_ % 250 + 1)).value();
    if (world_.dice.chance(0.3)) {
        local = Endpoint::unix_path("@post-" + std::to_string(number_)).value();
    }
    Result<DatagramSocket> socket = DatagramSocket::open(world_.loop(), local);
    if (!socket) {
        is_closed_ = true;  // out of descriptors, or of memory
        return;
    }
    socket_ = std::move(*socket);
    here_ = socket_.local_endpoint().value();
    if (world_.dice.chance(0.3)) {
        const Endpoint peer = any_address();
        if (socket_.connect(peer)) peer_ = peer;
    }
    world_.postmen.push_back(this);
    world_.all_postmen.push_back(this);
}

void Postman::act() {
    if (is_closed_ || world_.is_winding_down) {
        return;
    }
    const std::uint64_t roll = world_.dice.below(100);
    if (roll < 45) {
        send();
    } else if (roll < 85) {
        receive();
    } else if (roll < 94) {
        cancel_one();
    } else if (roll < 96) {
        wind_down();
    }
}

Endpoint Postman::any_address() {
    const auto fits = [this](const Postman* other) {
        return other->here_.is_unix() == here_.is_unix();
    };
    std::vector<const Postman*> others;
    std::ranges::copy_if(world_.postmen, std::back_inserter(others), fits);
    if (!others.empty() && !world_.dice.chance(0.1)) {
        return world_.dice.one_of(others)->here_;
    }
    return here_.is_unix() ? Endpoint::unix_path("@nobody").value()
                           : Endpoint(Address::loopback(Family::ipv4, 9));
}

std::size_t Postman::write_letter(const Endpoint& to) {
    const std::size_t size = world_.dice.chance(0.05) ? 65'507 : world_.dice.size(9'000);
    const std::size_t place = world_.dice.below(Flow::noise().size() - size);
    const auto noise = Flow::noise().subspan(place, size);
    Letter& letter = letters_.emplace_back();
    letter.bytes.assign(noise.begin(), noise.end());
    letter.to = to;
    const Header header = {number_, letters_.size() - 1};
    if (size >= sizeof header) {
        std::memcpy(letter.bytes.data(), &header, sizeof header);
    }
    return header.letter;
}

void Postman::send() {
    forget_finished(sends_);
    if (sends_.size() >= kMostPending || letters_.size() > 200) {
        return;
    }
    const Endpoint to = peer_.value_or(any_address());
    Send& send = *sends_.emplace_back(std::make_unique<Send>(*this));
    send.letters.push_back(write_letter(to));
    const Deadline deadline = world_.dice.deadline(20ms);
    if (peer_ || here_.is_unix() || world_.dice.chance(0.6)) {
        const std::span<const std::byte> bytes = letters_[send.letters[0]].bytes;
        send.single.start(deadline, [&](Deadline when) {
            return peer_ ? socket_.send(send.single, bytes, when)
                         : socket_.send(send.single, bytes, to, when);
        });
        return;
    }
    while (send.letters.size() < kBatch) {
        send.letters.push_back(write_letter(any_address()));
    }
    for (const std::size_t letter : send.letters) {
        Datagram& datagram = send.batch.emplace_back();
        datagram.buffer = letters_[letter].bytes;
        datagram.peer = letters_[letter].to.address();
        datagram.has_peer = true;
    }
    send.several.start(deadline,
                       [&](Deadline when) { return socket_.send(send.several, send.batch, when); });
}

void Postman::receive() {
    forget_finished(receives_);
    if (receives_.size() >= kMostPending) {
        return;
    }
    Receive& receive = *receives_.emplace_back(std::make_unique<Receive>(*this));
    const Deadline deadline = world_.dice.deadline(20ms);
    if (world_.dice.chance(0.5)) {
        receive.buffers[0].resize(world_.dice.chance(0.5) ? 66'000 : world_.dice.size(3'000));
        receive.single.start(deadline, [&](Deadline when) {
            return socket_.receive(receive.single, receive.buffers[0], when);
        });
        return;
    }
    for (std::size_t i = 0; i < kBatch; ++i) {
        receive.buffers[i].resize(world_.dice.size(9'000));
        receive.batch[i].buffer = receive.buffers[i];
    }
    receive.several.start(deadline, [&](Deadline when) {
        return socket_.receive(receive.several, receive.batch, when);
    });
}

// A single send or receive, or a whole one with all that is to come of it.
void Postman::cancel_one() {
    if (!receives_.empty() && world_.dice.chance(0.6)) {
        const std::size_t index = world_.dice.below(receives_.size());
        receives_[index]->single.cancel();
        receives_[index]->several.cancel();
        if (world_.dice.chance(0.2)) {
            receives_.erase(receives_.begin() + static_cast<std::ptrdiff_t>(index));
        }
    } else if (!sends_.empty()) {
        Send& send = *world_.dice.one_of(sends_);
        send.single.cancel();
        send.several.cancel();
    }
}

void Postman::arrived(std::span<const std::byte> bytes, bool is_truncated, const Endpoint& from) {
    Header header{};
    if (bytes.size() < sizeof header) {
        return;
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    const auto sender = std::ranges::find(world_.all_postmen, header.sender, &Postman::number_);
    if (sender == world_.all_postmen.end() || header.letter >= (*sender)->letters_.size()) {
        world_.findings.add("a datagram came that nobody sent");
        return;
    }
    Letter& letter = (*sender)->letters_[header.letter];
    ++letter.arrived_count;
    if (letter.arrived_count > 1 && !world_.has_duplicates) {
        world_.findings.add("a datagram came twice");
    }
    if (is_truncated ? bytes.size() >= letter.bytes.size() : bytes.size() != letter.bytes.size()) {
        world_.findings.add("a datagram of " + std::to_string(letter.bytes.size()) +
                            " bytes came as " + std::to_string(bytes.size()));
    } else if (!std::ranges::equal(bytes, std::span(letter.bytes).first(bytes.size()))) {
        world_.findings.add("a datagram came with other bytes");
    }
    if (!(letter.to == here_)) {
        world_.findings.add("a datagram to " + letter.to.to_string() + " came to " +
                            here_.to_string());
    }
    if (!here_.is_unix() && !(from == (*sender)->here_)) {
        world_.findings.add("a datagram names another sender");
    }
}

void Postman::go_on() {
    if (!is_closed_ && !world_.is_winding_down && world_.dice.chance(0.4)) {
        world_.dice.chance(0.7) ? receive() : act();
    }
}

void Postman::wind_down() {
    if (std::exchange(is_closed_, true)) {
        return;
    }
    std::erase(world_.postmen, this);
    const InsideCall inside(world_);
    socket_.close();
}

void Postman::check() {
    for (const Letter& letter : letters_) {
        if (letter.has_failed && letter.arrived_count > 0) {
            world_.findings.add("a datagram came whose send has failed");
        }
    }
}

}  // namespace berth::test::stress
