# SPDX-License-Identifier: Apache-2.0
"""tcp_proxy: both directions, half-closes, back-pressure, and targets that fail."""

import contextlib
import os
import socket
import struct
import threading

from program import (
    PATIENCE,
    check,
    connect,
    equal,
    full_listener,
    pattern,
    push,
    receive_all,
    unused_port,
)


class Target:
    """A listening socket of ours that the proxy connects to."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)

    def __str__(self):
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def pair(self, address):
        """A client of the proxy, and what the proxy has connected to the target for it."""
        client = connect(address)
        server, _ = self.listener.accept()
        server.settimeout(PATIENCE)
        return client, server


def break_off(stream):
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


def is_broken_off(stream):
    with contextlib.suppress(ConnectionResetError):
        stream.recv(1)
        return False
    return True


def is_turned_away(address):
    with contextlib.suppress(ConnectionResetError):  # perhaps before connect() returns
        return is_broken_off(connect(address))
    return True


def both_directions_at_once(target, address):
    client, server = target.pair(address)
    data = os.urandom(3 << 20)
    senders = [
        threading.Thread(target=lambda s=stream: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        for stream in (client, server)
    ]
    received = {}
    receivers = [
        threading.Thread(target=lambda s=stream: received.update({s: receive_all(s)}))
        for stream in (client, server)
    ]
    for thread in senders + receivers:
        thread.start()
    for thread in senders + receivers:
        thread.join(PATIENCE)
    check(received[client] == data and received[server] == data, "bytes are lost or changed")


def a_half_close_is_passed_on(target, address):
    client, server = target.pair(address)
    client.sendall(b"question")
    client.shutdown(socket.SHUT_WR)
    equal(receive_all(server), b"question")
    server.sendall(b"answer")
    server.close()
    equal(receive_all(client), b"answer")


def a_slow_receiver_slows_the_sender(target, address):
    for is_client_slow in True, False:
        fast, slow = target.pair(address)
        if is_client_slow:
            fast, slow = slow, fast
        sent = push(fast)
        fast.shutdown(socket.SHUT_WR)
        check(receive_all(slow) == pattern(sent), "bytes are lost or changed")


def who_breaks_off_breaks_both_off(target, address):
    for breaks_client in True, False:
        one, other = target.pair(address)
        if breaks_client:
            one, other = other, one
        one.sendall(b"x")
        equal(other.recv(1), b"x")
        break_off(one)
        check(is_broken_off(other), "a connection that broke off looks complete")


def targets_that_fail(runner):
    listener, fillers = full_listener()
    with unused_port() as nobody:
        for target, reason in ((nobody, "connection refused"), (listener, "timed out")):
            name = "127.0.0.1:%d" % target.getsockname()[1]
            with runner.start("127.0.0.1:0", name, 1) as proxy:
                check(is_turned_away(proxy.address()), "it pretends to be connected")
                _, errors = proxy.stop()
                check(name in errors and reason in errors and errors.count("\n") == 1, errors)
    for stream in [listener, *fillers]:
        stream.close()


def check_all(runner):
    runner.fails("127.0.0.1:0", "nowhere", code=2, says=["usage: "])
    target = Target()
    with runner.start("127.0.0.1:0", target) as proxy:
        address = proxy.address()
        both_directions_at_once(target, address)
        a_half_close_is_passed_on(target, address)
        a_slow_receiver_slows_the_sender(target, address)
        who_breaks_off_breaks_both_off(target, address)
        client, server = target.pair(address)
        equal(proxy.stop(), ("", ""))
        check(is_broken_off(client) and is_broken_off(server), "what was cut off looks complete")
    targets_that_fail(runner)
