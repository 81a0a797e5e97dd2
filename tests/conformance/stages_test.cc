// SPDX-License-Identifier: Apache-2.0

// Cancellation, deadlines and destruction at every stage of every kind of operation: before the
// engine has seen it, while it waits, when what it waits for has happened but was not delivered,
// and after its completion. It completes once, never inside a call, and nothing is left.

#include "src/engine/simulation/simulation.h"
#include "src/loop/timer_list.h"
#include "tests/conformance/engines.h"
#include "tests/conformance/stages_subjects.h"

#include <string>

namespace berth::test {
namespace {

using namespace std::chrono_literals;

class StagesTest : public EngineTest {
protected:
    void for_each_kind(const std::function<void(const SubjectKind&, Subject&)>& body) {
        for (const SubjectKind& kind : subject_kinds()) {
            SCOPED_TRACE(kind.name);
            const std::unique_ptr<Subject> subject = kind.make(loop());
            body(kind, *subject);
            if (HasFatalFailure()) {
                return;
            }
        }
        run_ready();
        EXPECT_EQ(loop().statistics().pending_count, 0U);
        EXPECT_EQ(loop().statistics().socket_count, 0U);
    }
    void run_until_complete(const Subject& subject) {
        run_until([&] { return subject.completion_count() == 1; });
    }
    /// That it can be started again, and then succeeds.
    void expect_usable(Subject& subject) {
        subject.throw_away();
        subject.start(kNoDeadline);
        subject.let();
        run_until_complete(subject);
        EXPECT_FALSE(subject.operation().has_failed()) << subject.operation().error().message();
    }
};

TEST_P(StagesTest, CancelledBeforeTheEngineHasSeenIt) {
    for_each_kind([&](const SubjectKind&, Subject& subject) {
        subject.start(kNoDeadline);
        subject.operation().cancel();
        EXPECT_EQ(subject.completion_count(), 0U);
        run_until_complete(subject);
        EXPECT_EQ(subject.operation().error().code(), Errc::cancelled);
    });
}

TEST_P(StagesTest, CancelledWhileItWaits) {
    for_each_kind([&](const SubjectKind& kind, Subject& subject) {
        subject.start(kNoDeadline);
        run_ready();
        ASSERT_EQ(subject.completion_count(), 0U);
        subject.operation().cancel();
        EXPECT_EQ(subject.completion_count(), 0U);
        run_until_complete(subject);
        EXPECT_EQ(subject.operation().error().code(), Errc::cancelled);
        if (kind.name != "connect") expect_usable(subject);
    });
}

// Of two whose turn comes in the same iteration, whichever is first cancels the other.
TEST_P(StagesTest, CancelledWhenItIsReadyButNotDelivered) {
    for_each_kind([&](const SubjectKind& kind, Subject& subject) {
        const std::unique_ptr<Subject> other = kind.make(loop());
        subject.set_then([&] { other->operation().cancel(); });
        other->set_then([&] { subject.operation().cancel(); });
        subject.start(kNoDeadline);
        other->start(kNoDeadline);
        run_ready();
        subject.let();
        other->let();
        run_until_complete(subject);
        run_until_complete(*other);
        run_ready();
        for (Subject* one : {&subject, other.get()}) {
            EXPECT_EQ(one->completion_count(), 1U);
            if (one->operation().has_failed()) {
                EXPECT_EQ(one->operation().error().code(), Errc::cancelled);
            }
        }
        EXPECT_FALSE(subject.operation().has_failed() && other->operation().has_failed());
        subject.set_then({});
    });
}

TEST_P(StagesTest, CancelledAfterItsCompletion) {
    for_each_kind([&](const SubjectKind&, Subject& subject) {
        subject.start(kNoDeadline);
        subject.let();
        run_until_complete(subject);
        EXPECT_FALSE(subject.operation().has_failed()) << subject.operation().error().message();
        subject.operation().cancel();
        run_ready();
        EXPECT_EQ(subject.completion_count(), 1U);
        EXPECT_FALSE(subject.operation().has_failed());
    });
}

TEST_P(StagesTest, TimedOutBeforeTheEngineHasSeenIt) {
    for_each_kind([&](const SubjectKind&, Subject& subject) {
        if (!subject.has_deadline) return;
        subject.start(within(0ns));
        EXPECT_EQ(subject.completion_count(), 0U);
        run_until_complete(subject);
        EXPECT_EQ(subject.operation().error().code(), Errc::timed_out);
    });
}

TEST_P(StagesTest, TimedOutWhileItWaits) {
    for_each_kind([&](const SubjectKind& kind, Subject& subject) {
        if (!subject.has_deadline) return;
        const TimePoint start = loop().now();
        subject.start(within(3ms));
        run_until_complete(subject);
        EXPECT_EQ(subject.operation().error().code(), Errc::timed_out);
        EXPECT_GE(loop().now() - start, 3ms);
        if (kind.name != "connect") expect_usable(subject);
    });
}

// Both are there when the loop comes to look. A result that needs one more call (splice, sendfile
// and connect over io_uring, which waits for readiness first) may come too late.
TEST_P(StagesTest, TimedOutWhenItIsReadyButNotDelivered) {
    for_each_kind([&](const SubjectKind&, Subject& subject) {
        if (!subject.has_deadline) return;
        const TimePoint deadline = loop().now() + 5ms;
        subject.start(at(deadline));
        run_ready();
        subject.let();
        let_pass_until(deadline + 1ms);
        run_until_complete(subject);
        run_ready();
        EXPECT_EQ(subject.completion_count(), 1U);
        if (subject.operation().has_failed()) {
            EXPECT_EQ(subject.operation().error().code(), Errc::timed_out);
        }
    });
}

TEST_P(StagesTest, TimedOutAfterItsCompletion) {
    for_each_kind([&](const SubjectKind& kind, Subject& subject) {
        if (!subject.has_deadline || kind.name == "connect") return;
        subject.start(within(10s));
        subject.let();
        run_until_complete(subject);
        ASSERT_FALSE(subject.operation().has_failed()) << subject.operation().error().message();
        // The deadline went with the completion: nothing is due any more.
        EXPECT_FALSE(internal::is_scheduled(subject.operation().timer));
        run_ready();
        EXPECT_EQ(subject.completion_count(), 1U);
    });
}

TEST_P(StagesTest, ThrownAwayBeforeTheEngineHasSeenIt) {
    for_each_kind([&](const SubjectKind& kind, Subject& subject) {
        subject.start(within(1h));
        subject.throw_away();
        EXPECT_EQ(loop().statistics().pending_count, 0U);
        if (kind.name != "connect") expect_usable(subject);
    });
}

TEST_P(StagesTest, ThrownAwayWhileItWaits) {
    for_each_kind([&](const SubjectKind& kind, Subject& subject) {
        subject.start(within(1h));
        run_ready();
        subject.throw_away();
        EXPECT_EQ(loop().statistics().pending_count, 0U);
        if (kind.name != "connect") expect_usable(subject);
    });
}

TEST_P(StagesTest, ThrownAwayWhenItIsReadyButNotDelivered) {
    for_each_kind([&](const SubjectKind& kind, Subject& subject) {
        const std::unique_ptr<Subject> other = kind.make(loop());
        unsigned completion_count = 0;
        const auto throw_away = [&](Subject& thrown) {
            if (++completion_count == 1) thrown.throw_away();
        };
        subject.set_then([&] { throw_away(*other); });
        other->set_then([&] { throw_away(subject); });
        subject.start(kNoDeadline);
        other->start(kNoDeadline);
        run_ready();
        subject.let();
        other->let();
        run_until([&] { return completion_count == 1; });
        run_ready();
        EXPECT_EQ(completion_count, 1U);
        EXPECT_EQ(loop().statistics().pending_count, 0U);
    });
}

BERTH_OVER_EVERY_ENGINE_OF(StagesTest);

}  // namespace
}  // namespace berth::test
