// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/plumber.h"

#include "src/base/system_calls.h"

#include <array>
#include <utility>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostBytes = 300'000;

}  // namespace

Plumber::Plumber(World& world)
    : Actor(world),
      write_(world, is_writer_closed_, [this] { has_written(); }),
      read_(world, is_reader_closed_, [this] { has_read(); }),
      poll_(world, is_watch_closed_, [this] { was_told(); }) {
    lay_pipes();
}

// Without descriptors or memory there is only a part of it.
void Plumber::lay_pipes() {
    const auto [from, to] = world_.simulation().make_pipe();
    const auto [watched, poker] = world_.simulation().make_pipe();
    watched_ = Descriptor(watched);
    poker_ = Descriptor(poker);
    Descriptor read_end(from);
    Descriptor write_end(to);
    if (!read_end.is_open() || !watched_.is_open()) {
        return;
    }
    Result<File> reader = File::adopt(world_.loop(), std::move(read_end));
    Result<File> writer = File::adopt(world_.loop(), std::move(write_end));
    Result<Watch> watch = Watch::open(world_.loop(), watched);
    if (reader && writer && watch) {
        reader_ = std::move(*reader);
        writer_ = std::move(*writer);
        watch_ = std::move(*watch);
    }
}

void Plumber::act() {
    if (world_.is_winding_down || world_.is_loop_ending || !watch_.is_open()) {
        return;
    }
    const std::uint64_t roll = world_.dice.below(100);
    if (roll < 30) {
        write();
    } else if (roll < 60) {
        read();
    } else if (roll < 70) {
        watch_other();
    } else if (roll < 80) {
        poke();
    } else if (roll < 84) {
        write_.cancel();
    } else if (roll < 88) {
        read_.cancel();
    } else if (roll < 92) {
        poll_.cancel();
    } else if (roll < 94) {
        is_writer_closed_ = true;
        const InsideCall inside(world_);
        writer_.close();
    }
}

void Plumber::write() {
    if (!writer_.is_open() || !write_.is_free() || flow_.handed_over_size > kMostBytes) {
        return;
    }
    const std::size_t size = 1 + world_.dice.size(100'000);
    const std::size_t place = world_.dice.below(Flow::noise().size() - size);
    chunk_ = &flow_.hand_over(Flow::noise().subspan(place, size));
    write_.start(world_.dice.deadline(20ms), [this](Deadline deadline) {
        return writer_.write(write_, chunk_->bytes, -1, deadline);
    });
}

void Plumber::has_written() {
    chunk_->sent = write_.count();
    if (world_.dice.chance(0.5)) write();
}

void Plumber::read() {
    if (!reader_.is_open() || !read_.is_free()) {
        return;
    }
    buffer_.resize(1 + world_.dice.size(100'000));
    read_.start(world_.dice.deadline(20ms),
                [this](Deadline deadline) { return reader_.read(read_, buffer_, -1, deadline); });
}

void Plumber::has_read() {
    flow_.take(std::span(buffer_).first(read_.count()));
    const bool is_end = read_.count() == 0 && !read_.has_failed();
    if (is_end && writer_.is_open()) {
        world_.findings.add("a pipe ends while it is still written");
    }
    flow_.has_ended = flow_.has_ended || is_end;
    if (!is_end && world_.dice.chance(0.5)) read();
}

void Plumber::watch_other() {
    if (poll_.is_free()) {
        poll_.start(world_.dice.deadline(20ms),
                    [this](Deadline deadline) { return watch_.poll(poll_, POLLIN, deadline); });
    }
}

void Plumber::was_told() {
    if (!poll_.has_failed() && poked_count_ == 0) {
        world_.findings.add("a watch tells of what is not there");
    }
    if (world_.dice.chance(0.5)) drain();
    if (world_.dice.chance(0.5)) act();
}

void Plumber::poke() {
    const char byte = 0;
    const iovec part = {const_cast<char*>(&byte), 1};
    if (internal::calls().pwritev2(poker_.get(), &part, 1, -1, 0) == 1) {
        ++poked_count_;
    }
}

// Not below the last byte: that would wait.
void Plumber::drain() {
    std::array<char, 64> bytes;
    while (poked_count_ > 0) {
        const iovec part = {bytes.data(), std::min(bytes.size(), poked_count_)};
        const ssize_t count = internal::calls().preadv2(watched_.get(), &part, 1, -1, 0);
        if (count <= 0) {
            return;
        }
        poked_count_ -= static_cast<std::size_t>(count);
    }
}

void Plumber::wind_down() {
    is_writer_closed_ = is_reader_closed_ = is_watch_closed_ = true;
    const InsideCall inside(world_);
    writer_.close();
    reader_.close();
    watch_.close();
}

void Plumber::check() {
    drain();
    watched_ = Descriptor();
    poker_ = Descriptor();
    if (const std::optional<std::string> complaint = flow_.complaint()) {
        world_.findings.add("a pipe: " + *complaint);
    }
}

}  // namespace berth::test::stress
