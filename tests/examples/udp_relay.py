# SPDX-License-Identifier: Apache-2.0
"""udp_relay: each client gets its own answers, over a socket of its own."""

import contextlib
import socket
import threading

from program import PATIENCE, check, equal, wait_until


def datagram_socket(port=0, shares=False):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shares)
    udp.bind(("127.0.0.1", port))
    udp.settimeout(PATIENCE)
    return udp


class Target:
    """Answers each datagram with itself behind a '>', and notes who has sent what."""

    def __init__(self, port=0):
        self.socket = datagram_socket(port, shares=port != 0)
        self.received = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):  # until the socket is closed
            while True:
                data, client = self.socket.recvfrom(1 << 16)
                self.received.append((data, client[1]))
                self.socket.sendto(b">" + data, client)

    def port_of(self, data):
        """Where `data` has come from."""
        return next(port for received, port in self.received if received == data)


def name_of(udp):
    return "127.0.0.1:%d" % udp.getsockname()[1]


def each_gets_its_own_answers(target, relay):
    clients = [datagram_socket() for _ in range(20)]
    for turn in range(3):
        for index, client in enumerate(clients):
            client.sendto(b"%d of %d" % (turn, index), relay)
    for index, client in enumerate(clients):
        for turn in range(3):
            equal(client.recv(100), b">%d of %d" % (turn, index))
    ports = {target.port_of(b"0 of %d" % index) for index in range(20)}
    equal(len(ports), 20)
    equal({port for _, port in target.received}, ports)


def many_of_one_client(relay):
    client = datagram_socket()
    answers = set()
    for first in range(0, 400, 20):  # no more at a time than any queue between has room for
        for number in range(first, first + 20):
            client.sendto(b"%d" % number, relay)
        for _ in range(20):
            answers.add(client.recv(100))
    equal(answers, {b">%d" % number for number in range(400)})


def short_and_long_ones(relay):
    client = datagram_socket()
    for size in 0, 9000, 1:  # one after the other: rests of a longer one must not come along
        client.sendto(b"x" * size, relay)
        equal(client.recv(1 << 16), b">" + b"x" * size)
    client.sendto(b"too long" * 2000, relay)
    client.sendto(b"next", relay)
    equal(client.recv(1 << 16), b">next")


def a_silent_client_is_forgotten(runner):
    target = Target()
    with runner.start("127.0.0.1:0", name_of(target.socket), 1) as program:
        relay = program.address()
        program.wait_for_signals()
        before = program.descriptor_count()
        client = datagram_socket()
        for data in b"first", b"second":
            client.sendto(data, relay)
            equal(client.recv(100), b">" + data)
            wait_until(lambda: program.descriptor_count() == before, "the socket is closed")
        check(target.port_of(b"first") != target.port_of(b"second"), "the port is the old one")
        program.stop()


def a_target_that_comes_later(runner):
    # A connected socket takes nobody else's datagrams, and keeps the port from others meanwhile.
    holder = datagram_socket(shares=True)
    holder.connect(("127.0.0.1", 9))
    port = holder.getsockname()[1]
    name = name_of(holder)
    with runner.start("127.0.0.1:0", name) as program:
        relay = program.address()
        program.wait_for_signals()
        before = program.descriptor_count()
        client = datagram_socket()
        client.sendto(b"lost", relay)
        wait_until(lambda: program.descriptor_count() > before, "the relay has passed it on")
        target = Target(port)
        client.settimeout(0.05)

        def is_answered():
            client.sendto(b"there?", relay)
            with contextlib.suppress(TimeoutError):
                return client.recv(100) == b">there?"

        wait_until(is_answered, "an answer of the target")
        program.stop()
        target.socket.close()
    holder.close()


def check_all(runner):
    for arguments in (["127.0.0.1:0"], ["127.0.0.1:0", "nowhere"], ["127.0.0.1:0", "::1", "0"]):
        runner.fails(*arguments, code=2, says=["usage: "])
    target = Target()
    taken = name_of(target.socket)
    runner.fails(taken, "127.0.0.1:9", code=1, says=["bind", taken, "in use"])
    with runner.start("127.0.0.1:0", name_of(target.socket)) as program:
        relay = program.address()
        each_gets_its_own_answers(target, relay)
        many_of_one_client(relay)
        short_and_long_ones(relay)
        output, errors = program.stop()
        equal(errors, "")
        equal(output, f"relayed {2 * (60 + 400 + 4)}, dropped 1\n")
    a_silent_client_is_forgotten(runner)
    a_target_that_comes_later(runner)
    target.socket.close()
