// SPDX-License-Identifier: Apache-2.0
#include "bench/raw/sockets.h"

#include <netinet/in.h>
#include <poll.h>

namespace berth::bench::raw {

bool send_rest(int socket, std::span<const std::byte> data) noexcept {
    while (!data.empty()) {
        pollfd entry = {socket, POLLOUT, 0};
        ::poll(&entry, 1, -1);
        const ssize_t sent = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
        if (sent < 0 && !would_block()) {
            return false;
        }
        data = data.subspan(sent > 0 ? static_cast<std::size_t>(sent) : 0);
    }
    return true;
}

Result<int> open_churn_socket() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) {
        return last_error("open socket");
    }
    ChurnJob::reset_on_close(socket);
    return socket;
}

Result<StartedConnect> start_connect(const ChurnJob& job) {
    StartedConnect started;
    started.socket = BERTH_TRY(open_churn_socket());
    if (job.ports != nullptr) {
        Result<Port> port = job.ports->connect(started.socket, job.destination);
        if (port) {
            started.port = std::move(*port);
        } else {
            started.system_errno = port.error().system_errno();
            started.system_errno = started.system_errno == 0 ? EADDRNOTAVAIL : started.system_errno;
        }
        return started;
    }
    const int result = ::connect(started.socket, job.destination.data(), job.destination.size());
    started.system_errno = result == 0 || errno == EINPROGRESS ? 0 : errno;
    return started;
}

int connect_result(int socket) noexcept {
    int error = 0;
    socklen_t size = sizeof(error);
    return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace berth::bench::raw
