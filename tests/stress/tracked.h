// SPDX-License-Identifier: Apache-2.0
#pragma once

// An operation that checks what the library promises of all of them: it completes exactly once,
// never inside a call into the library, not later than its deadline, and with an error only when
// there is a reason for it.

#include "tests/stress/world.h"

#include <berth/operation.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace berth::test::stress {

/// Whether an operation of this kind may end with this error when the kernel has faults; not
/// ECANCELED and ETIMEDOUT, for which there are reasons.
bool may_fail_with(OperationKind kind, int system_errno) noexcept;

template <class Op>
class Tracked final : public Op {
public:
    /// `is_owner_closed`: its socket was closed, so that it may be cancelled.
    Tracked(World& world, const bool& is_owner_closed, std::function<void()> then)
        : Op(&Tracked::run),
          world_(world),
          is_owner_closed_(is_owner_closed),
          then_(std::move(then)) {}
    /// A pending one ends without its completion.
    ~Tracked() {
        if (is_expected_) {
            --world_.expected_count;
        }
        const InsideCall inside(world_);
        this->end();
    }

    bool is_free() const noexcept { return !is_expected_; }
    /// Results of it that are there already go with it.
    bool has_result() const noexcept {
        return this->stage == internal::OperationStage::ready && !this->needs_attempt;
    }

    /// `submit(deadline)` answers what the submission did.
    template <class Submit>
    void start(Deadline deadline, Submit submit) {
        this->always_completes = world_.dice.chance(0.7);
        was_cancelled_ = false;
        deadline_ns_.reset();
        if (!deadline.is_never()) {
            deadline_ns_ = deadline.resolve_ns(now_ns());
        }
        expect();
        Start answer = Start::pending;
        {
            const InsideCall inside(world_);
            answer = submit(deadline);
        }
        if (answer == Start::done) {
            if (this->always_completes || this->is_pending()) {
                complain("is done, but should be pending");
            }
            finish();
        }
    }
    /// For a submission that answers nothing.
    void expect() noexcept {
        is_expected_ = true;
        ++world_.expected_count;
    }
    /// It was submitted anew while it was pending.
    void uncancel() noexcept { was_cancelled_ = false; }
    void cancel() {
        was_cancelled_ = true;
        const InsideCall inside(world_);
        Op::cancel();
    }

private:
    std::uint64_t now_ns() const {
        return static_cast<std::uint64_t>(world_.loop().now().time_since_epoch().count());
    }
    static void run(Operation& operation) noexcept {
        auto& self = static_cast<Tracked&>(static_cast<Op&>(operation));
        if (self.world_.inside_calls != 0) {
            self.complain("completes inside a call");
        }
        self.finish();
    }
    void finish() {
        if (!std::exchange(is_expected_, false)) {
            complain("completes though it is not pending");
            return;
        }
        --world_.expected_count;
        if (!world_.is_loop_ending) {
            check_result();
        }
        // The operation may be destroyed by what follows.
        const std::function<void()> then = then_;
        then();
    }
    void check_result() {
        const std::uint64_t slack_ns = static_cast<std::uint64_t>(world_.slack.count());
        if (deadline_ns_ && now_ns() > *deadline_ns_ + slack_ns) {
            complain("is late by " + std::to_string(now_ns() - *deadline_ns_) + " ns");
        }
        const int error = this->system_errno();
        bool has_reason = error == 0 || may_fail_with(this->kind, error);
        if (error == ECANCELED) {
            has_reason = was_cancelled_ || is_owner_closed_;
        } else if (error == ETIMEDOUT) {
            has_reason = world_.has_broken_connections || this->kind == OperationKind::connect ||
                         (deadline_ns_ && now_ns() >= *deadline_ns_);
        } else if (error == EBADF) {
            has_reason = is_owner_closed_;
        }
        if (!has_reason) {
            complain("fails without a reason: " + this->error().message());
        }
    }
    void complain(const std::string& what) const {
        world_.findings.add(std::string(to_string(this->kind)) + " " + what);
    }

    World& world_;
    const bool& is_owner_closed_;
    std::function<void()> then_;
    bool is_expected_ = false;
    bool was_cancelled_ = false;
    std::optional<std::uint64_t> deadline_ns_;
};

}  // namespace berth::test::stress
