// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/epoll_instance.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace berth::internal::simulated {
namespace {

constexpr std::uint32_t kWays = EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE;
constexpr std::uint32_t kAlwaysWanted = EPOLLERR | EPOLLHUP;

}  // namespace

EpollInstance::~EpollInstance() { on_close(); }

int EpollInstance::control(int operation, int fd, const std::shared_ptr<File>& file,
                           const epoll_event* event) {
    if (!file->can_be_watched()) {
        return -EPERM;
    }
    if (file.get() == this || (operation != EPOLL_CTL_DEL && event == nullptr)) {
        return -EINVAL;
    }
    const auto found = entries_.find(fd);
    switch (operation) {
        case EPOLL_CTL_ADD:
            return found == entries_.end() ? add(fd, file, *event) : -EEXIST;
        case EPOLL_CTL_MOD:
            return found == entries_.end() ? -ENOENT : change(*found->second, *event);
        case EPOLL_CTL_DEL:
            if (found == entries_.end()) {
                return -ENOENT;
            }
            file->remove_watcher(*found->second);
            remove(*found->second);
            return 0;
        default:
            return -EINVAL;
    }
}

int EpollInstance::add(int fd, const std::shared_ptr<File>& file, const epoll_event& event) {
    const auto* inner = dynamic_cast<const EpollInstance*>(file.get());
    if (inner != nullptr && inner->reaches(*this)) {
        return -ELOOP;
    }
    auto entry = std::make_unique<Entry>(*this, fd, *file);
    file->add_watcher(*entry);
    Entry& added = *entries_.emplace(fd, std::move(entry)).first->second;
    added.events = event.events | kAlwaysWanted;
    added.data = event.data;
    if (added.ready_events() != 0) {
        list_ready(added);
    }
    return 0;
}

int EpollInstance::change(Entry& entry, const epoll_event& event) {
    if (((event.events | entry.events) & EPOLLEXCLUSIVE) != 0) {
        return -EINVAL;
    }
    entry.events = event.events | kAlwaysWanted;
    entry.data = event.data;
    entry.is_pretended = false;
    if (entry.ready_events() != 0) {
        entry.epoll.list_ready(entry);
    }
    return 0;
}

void EpollInstance::remove(Entry& entry) {
    std::erase(ready_, &entry);
    entries_.erase(entry.fd);
}

void EpollInstance::list_ready(Entry& entry) {
    if (!entry.is_listed) {
        entry.is_listed = true;
        ready_.push_back(&entry);
    }
    wake(kReadable);
}

void EpollInstance::Entry::on_wake(std::uint32_t woken) {
    const std::uint32_t wanted = events & ~kWays;
    if (wanted != 0 && (woken == 0 || (woken & wanted) != 0)) {
        epoll.list_ready(*this);
    }
}

std::uint32_t EpollInstance::Entry::ready_events() const {
    const std::uint32_t wanted = events & ~kWays;
    return wanted == 0 ? 0 : file.poll() & wanted;
}

int EpollInstance::collect(std::span<epoll_event> events) {
    std::deque<Entry*> batch = std::exchange(ready_, {});
    std::size_t count = 0;
    while (!batch.empty() && count < events.size()) {
        Entry& entry = *batch.front();
        batch.pop_front();
        entry.is_listed = false;
        std::uint32_t ready = entry.ready_events();
        if (std::exchange(entry.is_pretended, false) && ready == 0) {
            ready = entry.events & entry.file.spurious_events();
        }
        if (ready == 0) {
            continue;
        }
        events[count].events = ready;
        events[count].data = entry.data;
        ++count;
        if ((entry.events & EPOLLONESHOT) != 0) {
            entry.events &= kWays;
        } else if ((entry.events & EPOLLET) == 0) {
            entry.is_listed = true;
            ready_.push_back(&entry);
        }
    }
    ready_.insert(ready_.begin(), batch.begin(), batch.end());
    return static_cast<int>(count);
}

void EpollInstance::pretend(std::uint64_t number) {
    if (entries_.empty()) {
        return;
    }
    const auto index = static_cast<std::ptrdiff_t>(number % entries_.size());
    Entry& entry = *std::next(entries_.begin(), index)->second;
    if ((entry.events & entry.file.spurious_events()) != 0) {
        entry.is_pretended = true;
        list_ready(entry);
    }
}

std::vector<int> EpollInstance::list() const {
    std::vector<int> descriptors;
    for (const auto& [fd, entry] : entries_) descriptors.push_back(fd);
    return descriptors;
}

std::uint32_t EpollInstance::poll() {
    const bool is_ready =
        std::ranges::any_of(ready_, [](const Entry* entry) { return entry->ready_events() != 0; });
    return is_ready ? kReadable : 0;
}

bool EpollInstance::reaches(const File& file) const {
    return std::ranges::any_of(entries_, [&](const auto& item) {
        const File& watched = item.second->file;
        const auto* inner = dynamic_cast<const EpollInstance*>(&watched);
        return &watched == &file || (inner != nullptr && inner->reaches(file));
    });
}

void EpollInstance::on_close() {
    for (const auto& [fd, entry] : entries_) entry->file.remove_watcher(*entry);
    ready_.clear();
    entries_.clear();
}

std::string EpollInstance::describe() const {
    return "epoll of " + std::to_string(entries_.size()) + " descriptors";
}

}  // namespace berth::internal::simulated
