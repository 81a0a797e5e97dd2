// SPDX-License-Identifier: Apache-2.0
#include <berth/resolver.h>

#include <berth/ports.h>
#include <berth/scope.h>
#include <berth/task.h>

#include "tests/net/every_engine.h"
#include "tests/net/resolver/dns_server.h"
#include "tests/support/port_helpers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace berth {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

using Answer = Result<std::vector<Address>>;

/// A host with addresses of both families, and some that behave otherwise.
std::vector<DnsBytes> answer_of(const DnsQuestion& question) {
    const bool is_ipv4 = question.type == DnsType::a;
    const auto one = [](const DnsReply& reply) { return std::vector<DnsBytes>{reply.bytes()}; };
    DnsReply reply(question);
    const std::string& name = question.name;
    if (name == "both.test" || name == "both.search.test") {
        return one(reply.with_address(is_ipv4 ? "127.0.0.5" : "::1"));
    }
    if (name == "four.test") {
        return one(is_ipv4 ? reply.with_address("127.0.0.4") : reply);
    }
    if (name == "many.test") {
        for (int i = 1; i <= 20 && is_ipv4; ++i) {
            reply.with_address("127.0.0." + std::to_string(i));
        }
        return one(reply);
    }
    if (name == "alias.test") {
        return one(reply.with_alias("real.test").with_address(is_ipv4 ? "127.0.0.6" : "::6"));
    }
    if (name == "large.test") {
        return one(question.is_tcp ? reply.with_address("127.0.0.7") : reply.truncated());
    }
    if (name == "failing.test") {
        return one(DnsReply(question, DnsCode::failure));
    }
    if (name == "refusing.test") {
        return one(DnsReply(question, DnsCode::refused));
    }
    if (name == "silent.test") {
        return {};
    }
    if (name == "wrong-id.test") {
        DnsReply forged(question);
        forged.with_address("127.0.0.66").with_id(static_cast<std::uint16_t>(question.id + 1));
        return {forged.bytes(), reply.with_address("127.0.0.8").bytes()};
    }
    if (name == "wrong-name.test") {
        DnsQuestion other = question;
        other.encoded[1] ^= 1;
        DnsReply forged(other);
        return {forged.with_address("127.0.0.66").bytes(), reply.with_address("127.0.0.8").bytes()};
    }
    if (name == "noisy.test") {
        return {{},
                {1},
                {0xff, 0xfe, 0xfd},
                DnsBytes(700, 0x55),
                reply.with_address("127.0.0.9").bytes()};
    }
    if (name == "broken.test") {
        return one(reply.with_broken_record());
    }
    if (name.ends_with("crowd.test")) {
        return one(is_ipv4 ? reply.with_address("127.0.1." + name.substr(0, name.find('.')))
                           : reply);
    }
    return one(DnsReply(question, DnsCode::no_name));
}

class ResolverTest : public EveryEngineTest {
protected:
    void SetUp() override {
        EveryEngineTest::SetUp();
        if (loop_) {
            server_.emplace(loop(), answer_of);
        }
    }

    ResolverOptions options() const {
        ResolverOptions options;
        options.servers = {server_->address()};
        options.search_domains = std::vector<std::string>();
        options.timeout = 5s;
        return options;
    }
    Resolver resolver(const ResolverOptions& options) {
        Result<Resolver> made = Resolver::create(loop(), options);
        EXPECT_TRUE(made) << made.error().message();
        return std::move(*made);
    }
    Resolver resolver() { return resolver(options()); }

    Answer resolve(Resolver& resolver, const std::string& host, std::uint16_t port = 0,
                   AddressFamilies families = AddressFamilies::any, Deadline deadline = {}) {
        std::optional<Answer> answer;
        const auto work = [&]() -> Detached {
            answer = co_await resolver.resolve(host, port, families, deadline);
        };
        work();
        EXPECT_TRUE(run_until([&] { return answer.has_value(); })) << host;
        return answer.value_or(std::unexpected(Error(Errc::system, "run", host)));
    }
    Errc error_of(const Answer& answer) {
        EXPECT_FALSE(answer.has_value());
        return answer ? Errc::system : answer.error().code();
    }

    std::optional<DnsServer> server_;
};

Address address(std::string_view text) { return Address::parse(text).value_or(Address()); }

TEST_P(ResolverTest, FindsTheAddressesOfBothFamilies) {
    Resolver resolver = this->resolver();
    const Answer answer = resolve(resolver, "both.test", 443);
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_THAT(*answer, UnorderedElementsAre(address("127.0.0.5:443"), address("[::1]:443")));
}

TEST_P(ResolverTest, AsksForOneFamilyOnly) {
    Resolver resolver = this->resolver();
    EXPECT_THAT(resolve(resolver, "both.test", 80, AddressFamilies::ipv4).value(),
                ElementsAre(address("127.0.0.5:80")));
    EXPECT_THAT(resolve(resolver, "both.test", 80, AddressFamilies::ipv6).value(),
                ElementsAre(address("[::1]:80")));
    EXPECT_EQ(server_->questions().size(), 2U);
}

TEST_P(ResolverTest, PutsTheFamilyFirstThatIsPreferred) {
    ResolverOptions options = this->options();
    options.order = AddressOrder::ipv4_first;
    Resolver four = resolver(options);
    EXPECT_THAT(resolve(four, "both.test").value(),
                ElementsAre(address("127.0.0.5"), address("::1")));
    options.order = AddressOrder::ipv6_first;
    Resolver six = resolver(options);
    EXPECT_THAT(resolve(six, "both.test").value(),
                ElementsAre(address("::1"), address("127.0.0.5")));
}

TEST_P(ResolverTest, FollowsAnAlias) {
    Resolver resolver = this->resolver();
    EXPECT_THAT(resolve(resolver, "alias.test", 0, AddressFamilies::ipv4).value(),
                ElementsAre(address("127.0.0.6")));
}

TEST_P(ResolverTest, GivesAllAddressesOfAName) {
    ResolverOptions options = this->options();
    options.order = AddressOrder::as_received;
    Resolver resolver = this->resolver(options);
    const Answer answer = resolve(resolver, "many.test", 1);
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->size(), 20U);
    EXPECT_EQ(answer->front(), address("127.0.0.1:1"));
    EXPECT_EQ(answer->back(), address("127.0.0.20:1"));
}

TEST_P(ResolverTest, CallsBackWithAnOperationOfTheCallers) {
    Resolver resolver = this->resolver();
    std::vector<std::size_t> counts;
    auto lookup = handler<ResolveOperation>([&](ResolveOperation& done) {
        ASSERT_FALSE(done.has_failed()) << done.error().message();
        EXPECT_EQ(done.count(), done.addresses.size());
        counts.push_back(done.count());
    });
    EXPECT_EQ(resolver.resolve(lookup, "both.test"), Start::pending);
    ASSERT_TRUE(run_until([&] { return counts.size() == 1; }));
    EXPECT_EQ(resolver.resolve(lookup, "127.0.0.1"), Start::pending) << "never inside the call";
    ASSERT_TRUE(run_until([&] { return counts.size() == 2; }));
    EXPECT_THAT(counts, ElementsAre(2U, 1U));
}

TEST_P(ResolverTest, ANumericAddressIsAnsweredAtOnceAndAsksNobody) {
    Resolver resolver = this->resolver();
    std::vector<Address> found;
    const auto work = [&]() -> Detached {
        for (const char* host : {"192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7", "fe80::1%lo"}) {
            const Answer answer = co_await resolver.resolve(host, 53);
            found.push_back(answer.value().at(0));
        }
    };
    work();
    EXPECT_THAT(found, ElementsAre(address("192.0.2.7:53"), address("[2001:db8::7]:53"),
                                   address("[::ffff:192.0.2.7]:53"), address("[fe80::1%lo]:53")));
    EXPECT_EQ(error_of(resolve(resolver, "::1", 0, AddressFamilies::ipv4)), Errc::name_not_found);
    EXPECT_TRUE(server_->questions().empty());
}

TEST_P(ResolverTest, ANameThatIsNotThereIsNotFound) {
    Resolver resolver = this->resolver();
    const Answer answer = resolve(resolver, "nowhere.test");
    EXPECT_EQ(error_of(answer), Errc::name_not_found);
    EXPECT_EQ(answer.error().message(), "resolve nowhere.test: the name is not known");
}

TEST_P(ResolverTest, ANameWithoutAnAddressOfTheFamilyIsNotFound) {
    Resolver resolver = this->resolver();
    const Answer answer = resolve(resolver, "four.test", 0, AddressFamilies::ipv6);
    EXPECT_EQ(error_of(answer), Errc::name_not_found);
    EXPECT_THAT(answer.error().message(), HasSubstr("family"));
    EXPECT_THAT(resolve(resolver, "four.test").value(), ElementsAre(address("127.0.0.4")));
}

TEST_P(ResolverTest, AServerThatFailsIsAnotherError) {
    ResolverOptions options = this->options();
    options.tries = 1;
    Resolver resolver = this->resolver(options);
    EXPECT_EQ(error_of(resolve(resolver, "failing.test")), Errc::name_server_failed);
    EXPECT_EQ(error_of(resolve(resolver, "refusing.test")), Errc::name_server_failed);
    EXPECT_EQ(error_of(resolve(resolver, "broken.test")), Errc::name_server_failed);
}

TEST_P(ResolverTest, AServerThatDoesNotAnswerTimesOut) {
    ResolverOptions options = this->options();
    options.timeout = 5ms;
    options.tries = 2;
    Resolver resolver = this->resolver(options);
    const Answer answer = resolve(resolver, "silent.test", 0, AddressFamilies::ipv4);
    EXPECT_EQ(error_of(answer), Errc::timed_out);
    EXPECT_THAT(answer.error().message(), HasSubstr("no name server has answered"));
    EXPECT_EQ(server_->questions().size(), 2U) << "each try asks once";
}

TEST_P(ResolverTest, AsksTheNextServerWhenOneDoesNotAnswer) {
    DnsServer silent(loop(), [](const DnsQuestion&) { return std::vector<DnsBytes>(); });
    ResolverOptions options = this->options();
    options.servers = {silent.address(), server_->address()};
    options.timeout = 5ms;
    Resolver resolver = this->resolver(options);
    EXPECT_THAT(resolve(resolver, "four.test").value(), ElementsAre(address("127.0.0.4")));
    EXPECT_FALSE(silent.questions().empty());
}

TEST_P(ResolverTest, AServerThatIsNotThereIsReportedSoon) {
    // A connected socket takes nobody else's datagrams, and keeps the port from others.
    const Result<Socket> nobody = udp_socket(Family::ipv4);
    ASSERT_TRUE(nobody);
    const Address discard = Address::loopback(Family::ipv4, 9);
    ASSERT_EQ(::connect(nobody->fd(), discard.data(), discard.size()), 0);
    ResolverOptions options;
    options.servers = {test::local_of(nobody->fd())};
    options.search_domains = std::vector<std::string>();
    options.timeout = 10min;
    options.tries = 1;
    Resolver resolver = this->resolver(options);
    const Answer answer = resolve(resolver, "both.test");
    EXPECT_EQ(error_of(answer), Errc::name_server_failed);
    EXPECT_THAT(answer.error().message(), HasSubstr("no name server could be reached"));
}

TEST_P(ResolverTest, AnAnswerThatDoesNotFitIsFetchedByTcp) {
    Resolver resolver = this->resolver();
    EXPECT_THAT(resolve(resolver, "large.test", 0, AddressFamilies::ipv4).value(),
                ElementsAre(address("127.0.0.7")));
    ASSERT_EQ(server_->questions().size(), 2U);
    EXPECT_FALSE(server_->questions()[0].is_tcp);
    EXPECT_TRUE(server_->questions()[1].is_tcp);
}

TEST_P(ResolverTest, ForgedAnswersAreIgnored) {
    Resolver resolver = this->resolver();
    for (const char* host : {"wrong-id.test", "wrong-name.test"}) {
        EXPECT_THAT(resolve(resolver, host, 0, AddressFamilies::ipv4).value(),
                    ElementsAre(address("127.0.0.8")));
    }
}

TEST_P(ResolverTest, GarbageBeforeTheAnswerIsIgnored) {
    Resolver resolver = this->resolver();
    EXPECT_THAT(resolve(resolver, "noisy.test", 0, AddressFamilies::ipv4).value(),
                ElementsAre(address("127.0.0.9")));
}

TEST_P(ResolverTest, DamagedAnswersEndTheLookupOneWayOrAnother) {
    const char* given = std::getenv("BERTH_TEST_SEED");
    const auto seed = given != nullptr
                          ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10))
                          : std::random_device()();
    SCOPED_TRACE("replay with BERTH_TEST_SEED=" + std::to_string(seed));
    std::mt19937 random(seed);
    DnsServer damaging(loop(), [&](const DnsQuestion& question) {
        DnsReply reply(question);
        const bool is_ipv4 = question.type == DnsType::a;
        DnsBytes bytes =
            reply.with_alias("real.test").with_address(is_ipv4 ? "127.0.0.6" : "::6").bytes();
        for (int i = 0; i < 3; ++i) {
            bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
        }
        bytes.resize(random() % 4 == 0 ? random() % bytes.size() : bytes.size());
        return std::vector<DnsBytes>{bytes};
    });
    ResolverOptions options = this->options();
    options.servers = {damaging.address()};
    options.timeout = 5ms;
    options.tries = 1;
    options.order = AddressOrder::as_received;
    Resolver resolver = this->resolver(options);
    int ended_count = 0;
    const auto work = [&](int number) -> Detached {
        static_cast<void>(co_await resolver.resolve(std::to_string(number) + ".test"));
        ++ended_count;
    };
    for (int number = 0; number < 200; ++number) {
        work(number);
    }
    EXPECT_TRUE(run_until([&] { return ended_count == 200; }));
}

TEST_P(ResolverTest, SearchDomainsAreAppended) {
    ResolverOptions options = this->options();
    options.search_domains = std::vector<std::string>{"nothing.test", "search.test"};
    Resolver resolver = this->resolver(options);
    EXPECT_THAT(resolve(resolver, "both", 0, AddressFamilies::ipv4).value(),
                ElementsAre(address("127.0.0.5")));
    EXPECT_EQ(server_->count_of("both.nothing.test"), 1U);
    EXPECT_EQ(server_->count_of("both.search.test"), 1U);
    Resolver without = this->resolver();
    EXPECT_EQ(error_of(resolve(without, "both")), Errc::name_not_found);
}

TEST_P(ResolverTest, TheLocalHostIsKnownWithoutAServer) {
    ResolverOptions options = this->options();
    for (const bool uses_hosts_file : {true, false}) {
        options.uses_hosts_file = uses_hosts_file;
        Resolver resolver = this->resolver(options);
        const Answer answer = resolve(resolver, "localhost", 22, AddressFamilies::ipv4);
        ASSERT_TRUE(answer) << answer.error().message();
        EXPECT_EQ(answer->front(), address("127.0.0.1:22"));
    }
    options.order = AddressOrder::ipv4_first;
    Resolver resolver = this->resolver(options);
    for (const char* host : {"localhost", "LocalHost.", "some.localhost"}) {
        EXPECT_THAT(resolve(resolver, host, 22).value(),
                    ElementsAre(address("127.0.0.1:22"), address("[::1]:22")));
    }
    EXPECT_TRUE(server_->questions().empty());
    EXPECT_FALSE(resolve(resolver, "notlocalhost"));
    EXPECT_EQ(server_->count_of("notlocalhost"), 2U);
}

TEST_P(ResolverTest, ADeadlineEndsOneLookupAndFreesItsSockets) {
    Resolver resolver = this->resolver();
    EXPECT_EQ(resolve(resolver, "both.test").value().size(), 2U);
    const std::uint32_t before = loop().statistics().socket_count;
    const Answer answer = resolve(resolver, "silent.test", 0, {}, within(2ms));
    EXPECT_EQ(error_of(answer), Errc::timed_out);
    EXPECT_EQ(answer.error().message(), "resolve silent.test: timed out (errno 110)");
    EXPECT_EQ(loop().statistics().socket_count, before);
    EXPECT_EQ(resolve(resolver, "both.test").value().size(), 2U);
}

TEST_P(ResolverTest, CancellingOneLookupLeavesTheOthers) {
    Resolver resolver = this->resolver();
    std::optional<Errc> cancelled;
    std::optional<std::size_t> other;
    auto silent =
        handler<ResolveOperation>([&](ResolveOperation& done) { cancelled = done.error().code(); });
    auto both = handler<ResolveOperation>([&](ResolveOperation& done) { other = done.count(); });
    EXPECT_EQ(resolver.resolve(silent, "silent.test"), Start::pending);
    EXPECT_EQ(resolver.resolve(both, "both.test"), Start::pending);
    silent.cancel();
    EXPECT_FALSE(cancelled.has_value()) << "never inside the call";
    ASSERT_TRUE(run_until([&] { return cancelled && other; }));
    EXPECT_EQ(*cancelled, Errc::cancelled);
    EXPECT_EQ(*other, 2U);
    // The operation can be used again.
    cancelled.reset();
    EXPECT_EQ(resolver.resolve(silent, "nowhere.test"), Start::pending);
    ASSERT_TRUE(run_until([&] { return cancelled.has_value(); }));
    EXPECT_EQ(*cancelled, Errc::name_not_found);
}

TEST_P(ResolverTest, CancellingTheTaskEndsTheLookup) {
    Resolver resolver = this->resolver();
    const std::uint32_t before = loop().statistics().socket_count;
    Scope tasks;
    std::vector<Errc> outcomes;
    const auto work = [&]() -> Task<void> {
        for (int i = 0; i < 2; ++i) {
            const Answer answer = co_await resolver.resolve("silent.test");
            outcomes.push_back(error_of(answer));
        }
    };
    tasks.spawn(work());
    EXPECT_TRUE(loop().run_once());
    tasks.cancel();
    ASSERT_TRUE(run_until([&] { return tasks.size() == 0; }));
    EXPECT_THAT(outcomes, ElementsAre(Errc::cancelled, Errc::cancelled));
    EXPECT_EQ(loop().statistics().socket_count, before);
}

TEST_P(ResolverTest, AnOperationThatGoesTakesItsLookupAlong) {
    Resolver resolver = this->resolver();
    const std::uint32_t before = loop().statistics().socket_count;
    {
        auto silent = handler<ResolveOperation>([](ResolveOperation&) { ADD_FAILURE(); });
        EXPECT_EQ(resolver.resolve(silent, "silent.test"), Start::pending);
        EXPECT_GT(loop().statistics().socket_count, before);
    }
    EXPECT_EQ(loop().statistics().socket_count, before);
    EXPECT_EQ(resolve(resolver, "four.test").value().size(), 1U);
}

TEST_P(ResolverTest, AResolverThatGoesCancelsItsLookups) {
    ResolverOptions options = this->options();
    options.concurrency = 1;
    auto resolver = std::make_unique<Resolver>(this->resolver(options));
    std::vector<Errc> outcomes;
    const auto work = [&](Resolver& with) -> Detached {
        const Answer answer = co_await with.resolve("silent.test");
        outcomes.push_back(error_of(answer));
    };
    work(*resolver);
    work(*resolver);
    EXPECT_TRUE(loop().run_once());
    resolver.reset();
    ASSERT_TRUE(run_until([&] { return outcomes.size() == 2; }));
    EXPECT_THAT(outcomes, ElementsAre(Errc::cancelled, Errc::cancelled));
}

TEST_P(ResolverTest, ACompletionMayDestroyTheResolver) {
    auto resolver = std::make_unique<Resolver>(this->resolver());
    int cancelled_count = 0;
    const auto wait = [&](Resolver& with) -> Detached {
        const Answer answer = co_await with.resolve("silent.test", 0, {}, {});
        cancelled_count += error_of(answer) == Errc::cancelled ? 1 : 0;
    };
    const auto destroy = [&](Resolver& with, std::string host, Deadline deadline) -> Detached {
        const Answer answer = co_await with.resolve(host, 0, AddressFamilies::any, deadline);
        resolver.reset();
    };
    wait(*resolver);
    destroy(*resolver, "both.test", {});
    ASSERT_TRUE(run_until([&] { return resolver == nullptr && cancelled_count == 1; }));
    resolver = std::make_unique<Resolver>(this->resolver());
    wait(*resolver);
    destroy(*resolver, "silent.test", within(1ms));
    ASSERT_TRUE(run_until([&] { return resolver == nullptr && cancelled_count == 2; }));
}

TEST_P(ResolverTest, MoreLookupsThanAreCarriedOutAtATime) {
    for (const unsigned concurrency : {1U, 7U, 64U}) {
        ResolverOptions options = this->options();
        options.concurrency = concurrency;
        Resolver resolver = this->resolver(options);
        std::size_t right_count = 0;
        std::size_t done_count = 0;
        const auto work = [&](int number) -> Detached {
            const std::string text = std::to_string(number);
            const Answer answer = co_await resolver.resolve(text + ".crowd.test");
            const bool is_right =
                answer && answer->size() == 1 && answer->front() == address("127.0.1." + text);
            right_count += is_right ? 1 : 0;
            ++done_count;
        };
        for (int number = 0; number < 200; ++number) {
            work(number);
        }
        ASSERT_TRUE(run_until([&] { return done_count == 200; }));
        EXPECT_EQ(right_count, 200U);
    }
}

TEST_P(ResolverTest, AQueuedLookupEndsAtItsDeadlineToo) {
    ResolverOptions options = this->options();
    options.concurrency = 1;
    Resolver resolver = this->resolver(options);
    auto first = handler<ResolveOperation>([](ResolveOperation&) {});
    EXPECT_EQ(resolver.resolve(first, "silent.test"), Start::pending);
    EXPECT_EQ(error_of(resolve(resolver, "both.test", 0, {}, within(1ms))), Errc::timed_out);
    first.cancel();
    EXPECT_EQ(resolve(resolver, "both.test").value().size(), 2U);
    EXPECT_EQ(server_->count_of("both.test"), 2U) << "what gave up was never asked for";
}

TEST_P(ResolverTest, EachLookupHasAFreshPortOfTheTable) {
    constexpr PortRange kRange = {61'000, 61'999};
    TableOptions table_options;
    table_options.rest_period = 1h;
    table_options.range = kRange;
    Result<PortTable> ports = PortTable::create(Protocol::udp, table_options);
    if (!ports) {
        GTEST_SKIP() << ports.error().message();
    }
    server_.reset();
    make_loop({.udp_ports = &*ports});
    server_.emplace(loop(), answer_of);
    {
        Resolver resolver = this->resolver();
        for (int number = 0; number < 30; ++number) {
            const std::string host = std::to_string(number) + ".crowd.test";
            EXPECT_TRUE(resolve(resolver, host, 0, AddressFamilies::ipv4));
        }
    }
    std::set<std::uint16_t> seen;
    for (const DnsQuestion& question : server_->questions()) {
        EXPECT_TRUE(kRange.contains(question.client_port)) << question.client_port;
        seen.insert(question.client_port);
    }
    EXPECT_EQ(seen.size(), 30U) << "no port is used twice in a row of lookups";
    server_.reset();
    loop_.reset();
    EXPECT_LT(ports->statistics().free_count, 1000U) << "they rest";
    EXPECT_GT(ports->statistics().resting_count, 0U);
}

TEST_P(ResolverTest, WithoutAPortItSaysSo) {
    TableOptions table_options;
    table_options.range = PortRange{61'000, 61'000};
    table_options.recheck_interval = 1h;
    Result<PortTable> ports = PortTable::create(Protocol::udp, table_options);
    if (!ports) {
        GTEST_SKIP() << ports.error().message();
    }
    Result<Socket> socket = udp_socket(Family::ipv4);
    ASSERT_TRUE(socket);
    const Result<Port> only = ports->bind(*socket, Address::any(Family::ipv4));
    server_.reset();
    make_loop({.udp_ports = &*ports});
    server_.emplace(loop(), answer_of);
    Resolver resolver = this->resolver();
    const Answer answer = resolve(resolver, "both.test");
    EXPECT_EQ(error_of(answer), Errc::ports_exhausted);
    server_.reset();
}

TEST_P(ResolverTest, WithoutADescriptorItSaysSo) {
    Resolver resolver = this->resolver();
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const Descriptor lowest(::fcntl(0, F_DUPFD_CLOEXEC, 0));
    rlimit none = before;
    none.rlim_cur = static_cast<rlim_t>(lowest.get());
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const Answer answer = resolve(resolver, "both.test");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(error_of(answer), Errc::descriptors_exhausted);
    EXPECT_TRUE(resolve(resolver, "both.test"));
}

TEST_P(ResolverTest, WhatCannotBeANameIsRefused) {
    Resolver resolver = this->resolver();
    EXPECT_EQ(error_of(resolve(resolver, "")), Errc::invalid_argument);
    EXPECT_EQ(error_of(resolve(resolver, std::string("both.test\0.evil", 15))),
              Errc::invalid_argument);
    EXPECT_EQ(error_of(resolve(resolver, std::string(300, 'a'))), Errc::invalid_argument);
    EXPECT_EQ(error_of(resolve(resolver, std::string(70, 'a') + ".test")), Errc::name_not_found);
    EXPECT_FALSE(resolve(resolver, "192.0.2.1:80"));
    EXPECT_FALSE(resolve(resolver, "[::1]"));
    EXPECT_FALSE(resolve(resolver, "both..test"));
}

TEST_P(ResolverTest, OptionsOutOfRangeAreRefused) {
    const auto code = [&](const ResolverOptions& options) {
        const Result<Resolver> resolver = Resolver::create(loop(), options);
        return resolver ? Errc::system : resolver.error().code();
    };
    EXPECT_EQ(code({.timeout = 0ms}), Errc::invalid_argument);
    EXPECT_EQ(code({.tries = 0}), Errc::invalid_argument);
    EXPECT_EQ(code({.concurrency = 0}), Errc::invalid_argument);
    EXPECT_EQ(code({.servers = {address("fe80::1%lo")}}), Errc::invalid_argument);
}

TEST_P(ResolverTest, AnEmptyOneAnswersWithAnError) {
    Resolver resolver;
    EXPECT_EQ(error_of(resolve(resolver, "both.test")), Errc::invalid_argument);
}

TEST_P(ResolverTest, TheSystemsSettingsAreTheDefault) {
    const Result<Resolver> resolver = Resolver::create(loop());
    EXPECT_TRUE(resolver) << resolver.error().message();
}

BERTH_TEST_EVERY_ENGINE(ResolverTest);

}  // namespace
}  // namespace berth
