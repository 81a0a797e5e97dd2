// SPDX-License-Identifier: Apache-2.0
#pragma once

// A name server of the tests: it listens on the loopback address, UDP and TCP on one port that the
// kernel has chosen, runs on the loop of the test, and answers as a function says.

#include <berth/address.h>
#include <berth/descriptor.h>
#include <berth/loop.h>
#include <berth/watch.h>

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

using DnsBytes = std::vector<std::uint8_t>;

enum class DnsType : std::uint16_t { a = 1, cname = 5, aaaa = 28 };
enum class DnsCode : std::uint8_t { ok = 0, format = 1, failure = 2, no_name = 3, refused = 5 };

struct DnsQuestion {
    std::uint16_t id = 0;
    std::string name;
    DnsType type = DnsType::a;
    bool is_tcp = false;
    std::uint16_t client_port = 0;
    DnsBytes encoded;  // name, type and class as they came
};

/// Builds the answer to a question.
class DnsReply {
public:
    explicit DnsReply(const DnsQuestion& question, DnsCode code = DnsCode::ok);

    DnsReply& with_address(std::string_view address);  // of either family
    DnsReply& with_alias(std::string_view name);       // the rest is of that name
    DnsReply& truncated();
    DnsReply& with_id(std::uint16_t id);
    DnsReply& with_broken_record();  // it says it is longer than the message
    const DnsBytes& bytes() const { return bytes_; }

private:
    void add(const DnsBytes& bytes);
    void add_record(DnsType type, const DnsBytes& data);

    DnsBytes bytes_;
    DnsBytes owner_ = {0xc0, 12};  // the question's name
};

class DnsServer {
public:
    /// All that is to be sent, one message each. Called with each question.
    using Answer = std::function<std::vector<DnsBytes>(const DnsQuestion&)>;

    DnsServer(Loop& loop, Answer answer);
    DnsServer(const DnsServer&) = delete;
    DnsServer& operator=(const DnsServer&) = delete;

    const Address& address() const { return address_; }
    const std::vector<DnsQuestion>& questions() const { return questions_; }
    std::size_t count_of(std::string_view name) const;

private:
    using OnReady = std::function<void(PollOperation&)>;

    struct Connection {
        Connection(DnsServer& server, Descriptor accepted);

        DnsServer& of;
        Descriptor socket;
        Watch watch;
        DnsBytes received;
        Handler<PollOperation, OnReady> ready;
    };

    void open_sockets();
    void start(Watch& watch, PollOperation& operation);
    void take_datagrams();
    void take_connections();
    void take_bytes(Connection& connection);
    std::vector<DnsBytes> ask(const DnsBytes& message, bool is_tcp, std::uint16_t client_port);

    Loop& loop_;
    Answer answer_;
    Address address_;
    std::vector<DnsQuestion> questions_;
    Descriptor datagrams_;
    Descriptor listener_;
    Watch datagrams_watch_;
    Watch listener_watch_;
    Handler<PollOperation, OnReady> on_datagram_;
    Handler<PollOperation, OnReady> on_connection_;
    std::list<Connection> connections_;
};

}  // namespace berth
