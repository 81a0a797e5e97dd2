# SPDX-License-Identifier: Apache-2.0
"""echo_server and echo_server_callbacks."""

import os
import signal
import socket
import struct
import threading

from program import check, connect, equal, pattern, push, receive_all, wait_until


def echoes(address, data):
    with connect(address) as client:
        sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(1)))
        sender.start()
        echo = receive_all(client)
        sender.join()
    check(echo == data, f"{len(echo)} bytes came back of {len(data)}, or other ones")


def many_at_a_time(address):
    clients = [connect(address) for _ in range(50)]
    for number, client in enumerate(clients):
        client.sendall(b"client %02d" % number)
    for number, client in reversed(list(enumerate(clients))):
        equal(client.recv(100), b"client %02d" % number)
        client.close()


def a_slow_reader_is_not_read_from(address):
    with connect(address) as client:
        sent = push(client)
        client.shutdown(socket.SHUT_WR)
        check(receive_all(client) == pattern(sent), "something else came back")


def a_client_that_breaks_off_harms_nobody(address):
    client = connect(address)
    client.sendall(b"x" * 100_000)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    echoes(address, b"still there")


def waits_for_descriptors(runner):
    with runner.start("127.0.0.1:0", most_descriptors=24) as server:
        address = server.address()
        # UBSan looks at each type with a pipe, once: it must have seen them before.
        echoes(address, b"hello")
        clients = [connect(address) for _ in range(40)]  # the kernel accepts them all
        wait_until(server.has_errors, "no descriptor left")
        for client in clients[:30]:
            client.close()
        clients[-1].sendall(b"at last")
        equal(clients[-1].recv(100), b"at last")
        _, errors = server.stop()
        check("no file descriptor is left" in errors, errors)


def check_failures(runner, address):
    runner.fails("%s:%d" % address, code=1, says=["bind", "127.0.0.1", "in use"])
    runner.fails("localhost:80", code=2, says=["localhost:80", "write it like"])


def check_all(runner):
    with runner.start("127.0.0.1:0") as server:
        address = server.address()
        echoes(address, b"")
        echoes(address, b"hello")
        echoes(address, os.urandom(4 << 20))
        many_at_a_time(address)
        a_slow_reader_is_not_read_from(address)
        a_client_that_breaks_off_harms_nobody(address)
        check_failures(runner, address)
        idle = connect(address)
        equal(server.stop(signal.SIGINT), ("", ""))
        equal(idle.recv(1), b"")
    waits_for_descriptors(runner)
