// SPDX-License-Identifier: Apache-2.0
#include "bench/raw/datagram_calls.h"

#include "bench/raw/sockets.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>

namespace berth::bench::raw {
namespace {

constexpr std::size_t kLargestDatagram = 65'536;
// What one datagram with its headers may carry (IPv4).
constexpr std::size_t kLargestPayload = 65'507;
constexpr std::size_t kMostSegments = 64;
constexpr std::size_t kPlaceSize = 2'048;

}  // namespace

std::size_t segment_size(const msghdr& message, std::size_t received) noexcept {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
        if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO) {
            int size = 0;
            std::memcpy(&size, CMSG_DATA(header), sizeof(size));
            return static_cast<std::size_t>(size);
        }
    }
    return received;
}

std::size_t segments_per_send(std::size_t datagram_size) noexcept {
    return std::clamp<std::size_t>(kLargestPayload / datagram_size, 1, kMostSegments);
}

bool deliver_segments(DatagramsJob& job, std::span<const std::byte> data,
                      std::size_t segment) noexcept {
    while (!data.empty()) {
        const std::size_t size = std::min(segment, data.size());
        if (!job.received(data.first(size))) {
            return false;
        }
        data = data.subspan(size);
    }
    return true;
}

DatagramReceiver::DatagramReceiver(DatagramsJob& job)
    : job_(job), buffer_(std::max(kLargestDatagram, kDatagramBatch * kPlaceSize)) {
    for (std::size_t i = 0; i < kDatagramBatch; ++i) {
        places_[i] = {buffer_.bytes().data() + i * kPlaceSize, kPlaceSize};
        messages_[i].msg_hdr.msg_iov = &places_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
    }
}

Result<void> DatagramReceiver::drain() {
    for (bool may_have_more = true; may_have_more && !has_ended_;) {
        switch (job_.mode) {
            case DatagramMode::single:
                may_have_more = BERTH_TRY(receive_one());
                break;
            case DatagramMode::batched:
                may_have_more = BERTH_TRY(receive_batch());
                break;
            case DatagramMode::segmented:
                may_have_more = BERTH_TRY(receive_segments());
                break;
        }
    }
    return {};
}

Result<bool> DatagramReceiver::receive_one() {
    const ssize_t size = ::recv(job_.socket, buffer_.bytes().data(), kLargestDatagram, 0);
    if (size < 0) {
        return would_block() ? Result<bool>(false) : last_error("receive");
    }
    has_ended_ = !job_.received(buffer_.bytes().first(static_cast<std::size_t>(size)));
    return true;
}

Result<bool> DatagramReceiver::receive_batch() {
    const int count = ::recvmmsg(job_.socket, messages_.data(), kDatagramBatch, 0, nullptr);
    if (count < 0) {
        return would_block() ? Result<bool>(false) : last_error("receive");
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count) && !has_ended_; ++i) {
        const auto* const data = static_cast<const std::byte*>(places_[i].iov_base);
        has_ended_ = !job_.received({data, messages_[i].msg_len});
    }
    return static_cast<std::size_t>(count) == kDatagramBatch;
}

Result<bool> DatagramReceiver::receive_segments() {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control;
    iovec place = {buffer_.bytes().data(), kLargestDatagram};
    msghdr message{};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(job_.socket, &message, 0);
    if (size < 0) {
        return would_block() ? Result<bool>(false) : last_error("receive");
    }
    const auto received = static_cast<std::size_t>(size);
    has_ended_ =
        !deliver_segments(job_, buffer_.bytes().first(received), segment_size(message, received));
    return true;
}

DatagramSender::DatagramSender(DatagramsJob& job)
    : job_(job),
      buffer_(kMostSegments * std::max<std::size_t>(job.datagram_size, kPlaceSize)),
      batch_count_(job.mode == DatagramMode::single      ? 1
                   : job.mode == DatagramMode::segmented ? segments_per_send(job.datagram_size)
                                                         : kDatagramBatch) {
    for (std::size_t i = 0; i < kDatagramBatch; ++i) {
        places_[i] = {buffer_.bytes().data() + i * job.datagram_size, job.datagram_size};
        messages_[i].msg_hdr.msg_iov = &places_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
    }
}

std::size_t DatagramSender::fill_batch(std::size_t count) {
    std::size_t filled = 0;
    while (filled < count && job_.fill(buffer_.bytes().data() + filled * job_.datagram_size)) {
        ++filled;
    }
    return filled;
}

Result<bool> DatagramSender::send_until_full() {
    for (;;) {
        if (sent_count_ == filled_count_) {
            sent_count_ = 0;
            filled_count_ = fill_batch(batch_count_);
            if (filled_count_ == 0) {
                return true;
            }
        }
        const std::size_t sent = BERTH_TRY(send_some(filled_count_ - sent_count_));
        if (sent == 0) {
            return false;
        }
        sent_count_ += sent;
    }
}

Result<std::size_t> DatagramSender::send_some(std::size_t count) {
    if (job_.mode == DatagramMode::batched) {
        const int sent = ::sendmmsg(job_.socket, messages_.data() + sent_count_,
                                    static_cast<unsigned>(count), MSG_NOSIGNAL);
        if (sent < 0) {
            return would_block() ? Result<std::size_t>(0) : last_error("send");
        }
        return static_cast<std::size_t>(sent);
    }
    const std::byte* const data = buffer_.bytes().data() + sent_count_ * job_.datagram_size;
    if (::send(job_.socket, data, count * job_.datagram_size, MSG_NOSIGNAL) < 0) {
        return would_block() ? Result<std::size_t>(0) : last_error("send");
    }
    return count;
}

}  // namespace berth::bench::raw
