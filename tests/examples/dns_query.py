# SPDX-License-Identifier: Apache-2.0
"""dns_query, against a name server that loses, damages and forges answers."""

import signal
import socket
import threading

from program import check, equal

A, AAAA, CNAME = 1, 28, 5
IPV4 = socket.inet_pton(socket.AF_INET, "192.0.2.7")
IPV6 = socket.inet_pton(socket.AF_INET6, "2001:db8::7")


def number(value):
    return value.to_bytes(2, "big")


def record(data, type, name=b"\xc0\x0c"):
    return name + number(type) + number(1) + b"\0\0\0\x3c" + number(len(data)) + data


class NameServer:
    """Answers by what the first label of the name says, and notes who has asked."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.asked = []  # (name, type, id, port)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __str__(self):
        return "127.0.0.1:%d" % self.socket.getsockname()[1]

    def close(self):
        self.stranger.sendto(b"", self.socket.getsockname())
        self.thread.join()
        # It takes nobody's datagrams now, and keeps the port from others.
        self.socket.connect(("127.0.0.1", 9))

    def serve(self):
        while (received := self.socket.recvfrom(512))[0]:
            for answer in self.answers(*received):
                self.socket.sendto(answer, received[1])

    def answers(self, query, client):
        question = query[12:]
        name_end = question.index(b"\0")
        labels, at = [], 0
        while at < name_end:
            labels.append(question[at + 1 : at + 1 + question[at]])
            at += 1 + question[at]
        name = b".".join(labels).decode()
        type = int.from_bytes(question[name_end + 1 : name_end + 3], "big")
        first_time = not any((name, type) == asked[:2] for asked in self.asked)
        self.asked.append((name, type, query[:2], client[1]))
        address = record(IPV4 if type == A else IPV6, type)

        def message(*records, id=query[:2], flags=b"\x81\x80", question=question):
            header = id + flags + number(1) + number(len(records)) + b"\0\0\0\0"
            return header + question + b"".join(records)

        forgery = record(b"\x06" * len(address[12:]), type)
        wrong_id = bytes([query[0] ^ 1, query[1]])
        kind = labels[0].decode()
        if kind == "good":
            return [message(address)]
        if kind == "lost":
            return [] if first_time else [message(address)]
        if kind == "alias":
            return [message(record(b"\x04real\xc0\x12", CNAME), address)]
        if kind == "many":
            return [message(*[address] * 17)]
        if kind == "none":
            return [message()]
        if kind == "missing":
            return [message(flags=b"\x81\x83")]
        if kind == "broken":
            return [message(flags=b"\x81\x82")]
        if kind == "long":
            return [message(flags=b"\x83\x80")]
        if kind == "damaged":
            return [message(address)[:-3]]
        if kind == "forged":
            self.stranger.sendto(message(forgery), client)
            return [
                b"",
                query,
                message(forgery)[:20],
                message(forgery, id=wrong_id),
                message(forgery, question=question.replace(b"forged", b"forget")),
                message(forgery, question=question[:-3] + b"\x0f" + question[-2:]),
                message(address, question=question.replace(b"forged", b"FoRgEd")),
            ]
        return []  # silence


REASONS = {
    "missing": "no such name",
    "broken": "error 2",
    "long": "over TCP",
    "damaged": "damaged",
    "silent": "timed out",
}


def sorts_answers_out(runner, server):
    found_kinds = ["good", "lost", "alias", "forged"]
    kinds = [*found_kinds, "none", "many", *REASONS]
    code, output, errors = runner.run(server, *[f"{kind}.example" for kind in kinds])
    equal(code, 1)
    found = sorted(line for line in output.splitlines() if not line.startswith("many"))
    expected = [f"{kind}.example A 192.0.2.7" for kind in found_kinds]
    expected += [f"{kind}.example AAAA 2001:db8::7" for kind in found_kinds]
    equal(found, sorted([*expected, "none.example A none", "none.example AAAA none"]))
    equal(output.count("many.example"), 2 * 16)
    equal(errors.count("\n"), 2 * len(REASONS))
    for kind, reason in REASONS.items():
        lines = [line for line in errors.splitlines() if line.startswith(f"{kind}.example ")]
        check(len(lines) == 2 and all(reason in line for line in lines), lines)
    equal(len([asked for asked in server.asked if asked[0] == "silent.example"]), 2 * 3)


def each_query_is_new(runner, server):
    server.asked.clear()
    code, _, errors = runner.run(server, *[f"good.{n}" for n in range(100)])
    equal((code, errors), (0, ""))
    ports = [asked[3] for asked in server.asked]
    # By chance some are drawn again: numbers at any time, ports when they have had their rest.
    check(len(ports) >= 200 and len(set(ports)) > 190, "ports were used again")
    check(len({asked[2] for asked in server.asked}) > 190, "numbers were used again")
    steps = {after - before for before, after in zip(ports, ports[1:])}
    check(len(steps) > 150, "the ports follow each other")


def check_all(runner):
    runner.fails("127.0.0.1", code=2, says=["usage: "])
    runner.fails("dns.example", "example.org", code=2, says=["usage: "])
    server = NameServer()
    sorts_answers_out(runner, server)
    each_query_is_new(runner, server)
    code, output, errors = runner.run(server, "two..dots", "x" * 64)
    equal((code, output, errors.count("no host name")), (1, "", 4))
    with runner.start(server, "silent.example") as program:
        equal(program.stop(signal.SIGINT), ("", ""))
    nobody = str(server)
    server.close()
    code, output, errors = runner.run(nobody, "good.example")
    equal((code, output, errors.count(f"refused (errno 111); asked {nobody}")), (1, "", 2))
