// SPDX-License-Identifier: Apache-2.0
#pragma once

// What epoll_create1() makes. An entry comes onto the ready list when it is added or changed and
// its file is ready then, and by its file's wake-ups. A wait looks at each entry of the list anew:
// one that is no longer ready falls off; a level-triggered one goes back to the end of the list; an
// edge-triggered one leaves until the next wake-up; a one-shot one is off until it is changed.
//
// Source: fs/eventpoll.c of Linux 6.x.

#include "src/engine/simulation/file.h"

#include <sys/epoll.h>

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace berth::internal::simulated {

class EpollInstance final : public File {
public:
    explicit EpollInstance(Kernel& kernel) : File(kernel) {}
    ~EpollInstance() override;

    /// epoll_ctl(); `file` is what `fd` stands for.
    int control(int operation, int fd, const std::shared_ptr<File>& file, const epoll_event* event);
    /// Takes ready events, at most as many as there is room for.
    int collect(std::span<epoll_event> events);
    /// Somebody's readiness that is none: one of the entries, chosen by `number`, is reported by
    /// the next collect() for what it waits for. Nothing for an instance without entries.
    void pretend(std::uint64_t number);
    /// The descriptors that are waited for.
    std::vector<int> list() const;

    std::uint32_t poll() override;
    ssize_t read(Incoming& /*incoming*/) override { return -EINVAL; }
    ssize_t write(Outgoing& /*outgoing*/) override { return -EINVAL; }
    std::string describe() const override;

private:
    struct Entry final : Watcher {
        Entry(EpollInstance& instance, int descriptor, File& watched)
            : epoll(instance), fd(descriptor), file(watched) {}

        void on_wake(std::uint32_t events) override;
        void on_release() override { epoll.remove(*this); }
        std::uint32_t ready_events() const;

        EpollInstance& epoll;
        int fd;
        File& file;  // it tells before it goes
        std::uint32_t events = 0;
        epoll_data_t data{};
        bool is_listed = false;
        bool is_pretended = false;
    };

    int add(int fd, const std::shared_ptr<File>& file, const epoll_event& event);
    static int change(Entry& entry, const epoll_event& event);
    void remove(Entry& entry);
    void list_ready(Entry& entry);
    bool reaches(const File& file) const;
    void on_close() override;

    std::map<int, std::unique_ptr<Entry>> entries_;
    std::deque<Entry*> ready_;
};

}  // namespace berth::internal::simulated
