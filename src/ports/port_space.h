// SPDX-License-Identifier: Apache-2.0
#pragma once

// One set of 65,536 ports with everything that is known of them: which are free, which rest, who
// has the others. A port's life and the steps of it, each one atomic operation:
//
//   free ──claim──▶ taken, owner 0 ──CAS──▶ taken, owned ──CAS──▶ taken, owner 0 ──▶ resting ──▶
//   free
//
// The owner's CAS decides: whoever put his word there while the port was not free has it. A process
// may be killed between any two steps; the port is then taken with owner 0 (an orphan) or taken
// with a dead owner, and the sweep frees both.

#include "src/ports/owner.h"
#include "src/ports/port_set.h"
#include "src/ports/resting_ports.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace berth::internal {

/// What a release needs to know.
struct RestRule {
    AllowedPorts allowed;
    std::uint64_t epoch;  // of the resting ports
    bool has_rest;        // false: a released port is free at once
};

class PortSpace {
public:
    PortSet free;
    RestingPorts resting;

    // Sequentially consistent with the claims of others in overlapping spaces, as PortSet::claim().
    OwnerWord owner(std::uint16_t port) const noexcept { return owners_[port].load(); }

    /// Takes a free port for `owner`. False when somebody else was faster.
    bool claim(std::uint16_t port, OwnerWord owner) noexcept {
        if (!free.is_free(port)) {
            return false;
        }
        __builtin_prefetch(&owners_[port], 1);  // fetched while the bitmap's lock is waited for
        return free.claim(port) && settle(port, owner);
    }

    /// Takes a port that is free or rests.
    bool claim_unowned(std::uint16_t port, OwnerWord owner) noexcept {
        return (free.claim(port) || resting.remove(port)) && settle(port, owner);
    }

    /// Takes the port whether it is free, resting, lost or known as the kernel's; false when it
    /// has an owner that may not be overruled. `is_overruled(word)` says which may, besides the
    /// kernel.
    /// `was_kernels` tells what to put back when the claim is given up.
    template <class IsOverruled>
    bool claim_exactly(std::uint16_t port, OwnerWord owner, IsOverruled is_overruled,
                       bool& was_kernels) noexcept {
        was_kernels = false;
        if (claim_unowned(port, owner)) {
            return true;
        }
        OwnerWord current = this->owner(port);
        while (is_nobodys(current) || kind_of(current) == OwnerKind::kernel ||
               is_overruled(current)) {
            if (replace_owner(port, current, owner)) {
                was_kernels = kind_of(current) == OwnerKind::kernel;
                return true;
            }
            current = this->owner(port);
        }
        return false;
    }

    /// Changes the owner if it is still `expected`.
    bool replace_owner(std::uint16_t port, OwnerWord expected, OwnerWord desired) noexcept {
        return owners_[port].compare_exchange_strong(expected, desired);
    }

    /// Gives the port back if `owner` still has it; else does nothing and returns false.
    bool release(std::uint16_t port, OwnerWord owner, const RestRule& rule) noexcept {
        if (!replace_owner(port, owner, kNobody)) {
            return false;
        }
        put_to_rest(port, rule);
        return true;
    }

    /// Undoes a claim: the port is free again at once.
    void unclaim(std::uint16_t port, OwnerWord owner, const AllowedPorts& allowed) noexcept {
        if (replace_owner(port, owner, kNobody)) {
            make_free(port, allowed);
        }
    }

    /// Frees what has rested long enough. Returns how many.
    unsigned end_rests(const RestRule& rule) noexcept {
        return resting.advance(rule.epoch, free, rule.allowed,
                               [&](std::uint16_t port) { rescue(port, rule.allowed); });
    }
    /// Frees the ports of the oldest epoch that has any. Returns how many.
    unsigned end_oldest_rests(const RestRule& rule, RestSearch search) noexcept {
        return resting.free_oldest(free, rule.allowed, search,
                                   [&](std::uint16_t port) { rescue(port, rule.allowed); });
    }

    void make_free(std::uint16_t port, const AllowedPorts& allowed) noexcept {
        if (test(allowed.bits, port)) {
            free.release(port);
            if (!test(allowed.bits, port)) free.claim(port);  // it has left the range just now
        }
    }

private:
    // Between the claim of the bit and this CAS a sweeper may have taken the port for lost and
    // freed it: then somebody else's word may stand there, and the claim is void.
    bool settle(std::uint16_t port, OwnerWord owner) noexcept {
        OwnerWord current = kNobody;
        while (!owners_[port].compare_exchange_strong(current, owner)) {
            if (!is_nobodys(current)) return false;
        }
        // The bit may have been set once more, see RestingPorts.
        if (!free.claim(port) || this->owner(port) == owner) {
            return true;
        }
        free.release(port);  // and may have been right, when the port was taken from us meanwhile
        return false;
    }

    // See RestingPorts. A port without an owner may also be on its way to or from one; then its
    // taker finds the rescuer's word and draws again, or its releaser puts it to rest once more.
    void rescue(std::uint16_t port, const AllowedPorts& allowed) noexcept {
        const OwnerWord rescuer = claim_word();
        if (owner(port) == kNobody && replace_owner(port, kNobody, rescuer)) {
            unclaim(port, rescuer, allowed);
        }
    }

    void put_to_rest(std::uint16_t port, const RestRule& rule) noexcept {
        if (!rule.has_rest) {
            make_free(port, rule.allowed);
        } else if (test(rule.allowed.bits, port)) {
            end_rests(rule);
            resting.add(port, rule.epoch);
        }
    }

    alignas(64) std::array<std::atomic<OwnerWord>, kPortCount> owners_;
};

}  // namespace berth::internal
