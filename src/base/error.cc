// SPDX-License-Identifier: Apache-2.0
#include <berth/error.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace berth {
namespace {

struct CodeText {
    std::string_view name;
    const char* phrase;
};

CodeText text_of(Errc code) noexcept {
    switch (code) {
        case Errc::ports_exhausted:
            return {"ports_exhausted", "no local port is left"};
        case Errc::port_in_use:
            return {"port_in_use", "the port is in use"};
        case Errc::not_holder:
            return {"not_holder", "held by somebody else, or gone"};
        case Errc::lease_expired:
            return {"lease_expired", "the lease has expired"};
        case Errc::too_many_leases:
            return {"too_many_leases", "no room for another lease"};
        case Errc::address_not_available:
            return {"address_not_available", "the address is not on this host"};
        case Errc::invalid_argument:
            return {"invalid_argument", "invalid argument"};
        case Errc::permission_denied:
            return {"permission_denied", "permission denied"};
        case Errc::unsupported:
            return {"unsupported", "not supported here"};
        case Errc::table_mismatch:
            return {"table_mismatch", "this is the port table of something else"};
        case Errc::table_damaged:
            return {"table_damaged", "this is not an intact port table"};
        case Errc::descriptors_exhausted:
            return {"descriptors_exhausted", "no file descriptor is left"};
        case Errc::out_of_memory:
            return {"out_of_memory", "out of memory"};
        case Errc::refused:
            return {"refused", "connection refused"};
        case Errc::reset:
            return {"reset", "connection reset by the peer"};
        case Errc::closed:
            return {"closed", "the connection is closed"};
        case Errc::truncated:
            return {"truncated", "the stream ended too early"};
        case Errc::too_long:
            return {"too_long", "the datagram is too long"};
        case Errc::unreachable:
            return {"unreachable", "no route to the destination"};
        case Errc::timed_out:
            return {"timed_out", "timed out"};
        case Errc::cancelled:
            return {"cancelled", "cancelled"};
        case Errc::name_not_found:
            return {"name_not_found", "the name is not known"};
        case Errc::name_server_failed:
            return {"name_server_failed", "the name server did not answer"};
        case Errc::tls_failed:
            return {"tls_failed", "TLS failed"};
        case Errc::certificate_rejected:
            return {"certificate_rejected", "the certificate is not accepted"};
        case Errc::interrupted:
            return {"interrupted", "interrupted"};
        case Errc::system:
            break;
    }
    return {"system", "system error"};
}

Errc code_of(int system_errno) noexcept {
    switch (system_errno) {
        case EADDRINUSE:
            return Errc::port_in_use;
        case EADDRNOTAVAIL:
            return Errc::address_not_available;
        case EINVAL:
        case EBADF:
        case ENOTSOCK:
            return Errc::invalid_argument;
        case EACCES:
        case EPERM:
            return Errc::permission_denied;
        case EAFNOSUPPORT:
        case EPROTONOSUPPORT:
        case ENOPROTOOPT:
        case EOPNOTSUPP:
        case ENOSYS:
            return Errc::unsupported;
        case EMFILE:
        case ENFILE:
            return Errc::descriptors_exhausted;
        case ENOMEM:
        case ENOBUFS:
            return Errc::out_of_memory;
        case ECONNREFUSED:
            return Errc::refused;
        case ECONNRESET:
        case ECONNABORTED:
            return Errc::reset;
        case EPIPE:
        case ENOTCONN:
        case ESHUTDOWN:
            return Errc::closed;
        case EMSGSIZE:
            return Errc::too_long;
        case ECANCELED:
            return Errc::cancelled;
        case ENETUNREACH:
        case EHOSTUNREACH:
            return Errc::unreachable;
        case ETIMEDOUT:
            return Errc::timed_out;
        case EINTR:
            return Errc::interrupted;
        default:
            return Errc::system;
    }
}

/// What helps whatever the operation was; null where only the caller can know.
const char* usual_remedy(Errc code, int system_errno) noexcept {
    switch (code) {
        case Errc::ports_exhausted:
            return "stop what holds them, or widen net.ipv4.ip_local_port_range";
        case Errc::descriptors_exhausted:
            return system_errno == ENFILE ? "raise fs.file-max"
                                          : "raise the limit of open files (ulimit -n)";
        default:
            return nullptr;
    }
}

std::string describe_exhaustion(const Error::Exhaustion& figures) {
    const std::string range = std::to_string(figures.first) + "-" + std::to_string(figures.last);
    const std::uint32_t range_size = figures.last - figures.first + 1U;
    if (range_size == 1) {
        return "the only port of " + range + " is taken";
    }
    if (figures.taken_count == 0) {
        return "no port of " + range + " can be had";
    }
    // Fewer are taken than the range has when some are reserved, or refused by the kernel.
    const char* usable = figures.taken_count < range_size ? " usable" : "";
    std::string text =
        "all " + std::to_string(figures.taken_count) + usable + " ports of " + range + " are taken";
    if (figures.top_holder_count != 0) {
        text += figures.top_holder_pid != 0
                    ? " (most by pid " + std::to_string(figures.top_holder_pid)
                    : std::string(" (most by sockets outside berth");
        text += ": " + std::to_string(figures.top_holder_count) + ")";
    }
    return text;
}

std::string describe_errno(Errc code, int system_errno) {
    const char* phrase = text_of(code).phrase;
    if (system_errno == 0) {
        return phrase;
    }
    if (code == Errc::system) {
        const char* kernel_text = ::strerrordesc_np(system_errno);
        phrase = kernel_text != nullptr ? kernel_text : phrase;
    }
    return phrase + (" (errno " + std::to_string(system_errno) + ")");
}

}  // namespace

std::string_view to_string(Errc code) noexcept { return text_of(code).name; }

Error::Error(Errc code, const char* operation, std::string_view subject, int system_errno,
             const char* reason, const char* remedy) noexcept
    : operation_(operation),
      reason_(reason),
      remedy_(remedy),
      system_errno_(system_errno),
      code_(code),
      subject_{} {
    std::copy_n(subject.data(), std::min(subject.size(), subject_.size() - 1), subject_.data());
}

Error Error::from_errno(int system_errno, const char* operation, std::string_view subject,
                        const char* remedy) noexcept {
    return {code_of(system_errno), operation, subject, system_errno, nullptr, remedy};
}

std::string_view Error::subject() const noexcept { return subject_.data(); }

Error& Error::with_exhaustion(const Exhaustion& figures) noexcept {
    exhaustion_ = figures;
    return *this;
}

std::string Error::message() const {
    std::string text = operation_;
    if (!subject().empty()) {
        text += ' ';
        text += subject();
    }
    text += ": ";
    const bool has_figures = code_ == Errc::ports_exhausted && exhaustion_.first != 0;
    text += has_figures ? describe_exhaustion(exhaustion_) : describe_errno(code_, system_errno_);
    if (reason_ != nullptr) {
        text += ": ";
        text += reason_;
    }
    const char* remedy = remedy_ != nullptr ? remedy_ : usual_remedy(code_, system_errno_);
    if (remedy != nullptr) {
        text += "; ";
        text += remedy;
    }
    return text;
}

}  // namespace berth
