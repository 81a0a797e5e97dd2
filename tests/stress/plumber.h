// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two pipes: one that is written and read by the loop, one that somebody else writes and a watch
// tells of. What is read is what was written; a watch tells of nothing that is not there.

#include "tests/stress/flow.h"
#include "tests/stress/tracked.h"

#include <berth/file.h>
#include <berth/watch.h>

#include <vector>

namespace berth::test::stress {

class Plumber final : public Actor {
public:
    explicit Plumber(World& world);

    void act() override;
    void wind_down() override;
    void check() override;

private:
    void lay_pipes();
    void write();
    void has_written();
    void read();
    void has_read();
    void watch_other();
    void was_told();
    /// Puts a byte into the other pipe, or takes all out of it.
    void poke();
    void drain();

    File writer_;
    File reader_;
    Watch watch_;
    Descriptor poker_;
    Descriptor watched_;
    std::size_t poked_count_ = 0;
    bool is_writer_closed_ = false;
    bool is_reader_closed_ = false;
    bool is_watch_closed_ = false;
    Flow flow_;
    Flow::Chunk* chunk_ = nullptr;  // that is being written
    std::vector<std::byte> buffer_;
    Tracked<WriteOperation> write_;
    Tracked<ReadOperation> read_;
    Tracked<PollOperation> poll_;
};

}  // namespace berth::test::stress
