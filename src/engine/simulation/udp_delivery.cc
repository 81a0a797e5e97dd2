// SPDX-License-Identifier: Apache-2.0
// What happens to a datagram between send() and recv().
#include "src/engine/simulation/address_io.h"
#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/udp_socket.h"

#include <algorithm>
#include <ranges>
#include <vector>

namespace berth::internal::simulated {
namespace {

// Calls `visit` with each of the datagrams that a bundle stands for.
template <class Visitor>
void split(const Datagram& bundle, Visitor visit) {
    for (std::size_t at = 0; at < bundle.data.size(); at += bundle.segment_size) {
        const std::size_t end = std::min(at + bundle.segment_size, bundle.data.size());
        Datagram part;
        part.source = bundle.source;
        part.destination = bundle.destination;
        part.data.assign(bundle.data.begin() + static_cast<std::ptrdiff_t>(at),
                         bundle.data.begin() + static_cast<std::ptrdiff_t>(end));
        visit(std::move(part));
    }
}

}  // namespace

void UdpSocket::dispatch(const Datagram& datagram) {
    const DatagramWeather& weather = kernel_.options.weather;
    const bool is_fair = weather.loss <= 0 && weather.duplication <= 0 && weather.reordering <= 0;
    if (is_fair || datagram.segment_size == 0) {
        return post(datagram);
    }
    // Each has its own fate.
    split(datagram, [this](const Datagram& part) { post(part); });
}

void UdpSocket::post(const Datagram& datagram) {
    const DatagramWeather& weather = kernel_.options.weather;
    SeededRandom& random = kernel_.random;
    const Route route = kernel_.routes.to(datagram.destination);
    // A host that is not there is no fatal error for UDP: the kernel keeps it to itself.
    if (route != Route::local || random.chance(weather.loss)) {
        return on_sent(0);
    }
    Nanoseconds hold{0};
    if (random.chance(weather.reordering)) {
        const auto longest = static_cast<std::uint64_t>(weather.longest_hold.count());
        hold = Nanoseconds(
            static_cast<std::int64_t>(1 + random.below(std::max<std::uint64_t>(longest, 1))));
    }
    const bool is_doubled = random.chance(weather.duplication);
    post_once(datagram, hold);
    if (is_doubled) {
        post_once(datagram, Nanoseconds(0));
    }
}

void UdpSocket::post_once(const Datagram& datagram, Nanoseconds hold) {
    const std::size_t charged = datagram.data.size() + kMessageOverhead;
    under_way_size_ += charged;
    const Nanoseconds way = kernel_.latency + kernel_.lateness + hold;
    kernel_.clock.schedule(
        way, [sender = std::static_pointer_cast<UdpSocket>(shared_from_this()), datagram, charged] {
            sender->on_sent(charged);
            if (sender->arrive(datagram)) {
                return;
            }
            Kernel& kernel = sender->kernel_;
            kernel.clock.schedule(kernel.latency, [sender, to = datagram.destination] {
                sender->on_port_unreachable(to);
            });
        });
}

void UdpSocket::on_sent(std::size_t charged) {
    under_way_size_ -= charged;
    if (2 * under_way_size_ <= static_cast<std::size_t>(send_buffer_)) {
        wake(kWakeWritable);
    }
}

bool UdpSocket::arrive(const Datagram& datagram) const {
    UdpSocket* receiver = find_receiver(kernel_, datagram);
    if (receiver != nullptr) {
        receiver->take(datagram);
    }
    return receiver != nullptr;
}

void UdpSocket::on_port_unreachable(const Address& destination) {
    if (remote_ == destination) {
        error_ = ECONNREFUSED;
        wake(EPOLLERR);
    }
}

UdpSocket* UdpSocket::find_receiver(Kernel& kernel, const Datagram& datagram) {
    // The best match; of equals the youngest, or a share for each of those with SO_REUSEPORT.
    std::vector<UdpSocket*> best;
    int best_score = 0;
    const auto& claims = kernel.udp_ports.claims(datagram.destination.port());
    for (const PortClaim* claim : std::views::reverse(claims)) {
        auto* socket = static_cast<UdpSocket*>(claim->owner);
        const int score = socket->score(datagram);
        if (score > best_score) {
            best_score = score;
            best = {socket};
        } else if (score > 0 && score == best_score && claim->may_reuse_port) {
            best.push_back(socket);
        }
    }
    if (best.empty()) {
        return nullptr;
    }
    return best.front()->claim_.may_reuse_port ? best[share_of(datagram.source, best.size())]
                                               : best.front();
}

int UdpSocket::score(const Datagram& datagram) const {
    PortClaim wanted;
    wanted.host = datagram.destination.with_port(0);
    const bool is_for_others = !is_unconnected() && remote_ != datagram.source;
    if (!claim_.overlaps(wanted) || is_for_others) {
        return 0;
    }
    return 1 + (family() == Family::ipv4 ? 1 : 0) + (claim_.host == wanted.host ? 4 : 0) +
           (is_unconnected() ? 0 : 8);
}

void UdpSocket::take(const Datagram& datagram) {
    if (datagram.segment_size == 0 || takes_bundles_) {
        return enqueue(datagram);
    }
    split(datagram, [this](Datagram part) { enqueue(std::move(part)); });
}

void UdpSocket::enqueue(Datagram datagram) {
    const std::size_t size = datagram.data.size();
    const bool is_full = queued_size_ > static_cast<std::size_t>(receive_buffer_);
    if (is_full || !kernel_.memory.has_room_for(size)) {
        return;
    }
    queued_size_ += size + kMessageOverhead;
    queue_.push_back({std::move(datagram), MemoryCharge(kernel_.memory, size)});
    wake(kWakeReadable);
}

}  // namespace berth::internal::simulated
