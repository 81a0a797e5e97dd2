# SPDX-License-Identifier: Apache-2.0
"""connect_scanner: what it says about ports whose state is known."""

import contextlib
import re
import socket

from program import equal, full_listener, unused_port


def summary(output):
    """The counts of the last line, by name."""
    line = output.splitlines()[-1]
    return {name: int(count) for count, name in re.findall(r"(\d+) ([a-z_]+)", line)}


def open_ports(output):
    return [int(line.split()[0]) for line in output.splitlines() if line.endswith(" open")]


def neighbours(count):
    """That many sockets with consecutive ports, which do not listen. Who scans ports of others takes
    part in what these test at the same time: a connection that comes and goes."""
    while True:
        first = unused_port()
        port = first.getsockname()[1]
        holders = [first]
        with contextlib.suppress(OSError, OverflowError):
            for number in range(port + 1, port + count):
                holder = socket.socket()
                holders.append(holder)
                holder.bind(("127.0.0.1", number))
            return holders
        for holder in holders:
            holder.close()


def tells_open_ports_from_others(runner):
    holders = neighbours(6)
    first = holders[0].getsockname()[1]
    for index in 1, 4:
        holders[index].listen()
    code, output, errors = runner.run("127.0.0.1", f"{first}-{first + 5}")
    equal((code, errors), (0, ""))
    equal(sorted(open_ports(output)), [first + 1, first + 4])
    equal(summary(output), {"open": 2, "refused": 4, "timed_out": 0, "unreachable": 0})
    # Nothing that it was not told to connect to.
    code, output, _ = runner.run("127.0.0.1", f"{first + 2}-{first + 3}")
    equal(summary(output), {"open": 0, "refused": 2, "timed_out": 0, "unreachable": 0})


def tells_who_stays_silent(runner):
    holders = neighbours(21)
    listener, fillers = full_listener(holders[-1])
    port = listener.getsockname()[1]
    # The answers of those before it tell how long to wait.
    code, output, errors = runner.run("127.0.0.1", f"{port - 20}-{port}")
    equal((code, errors), (0, ""))
    equal(summary(output), {"open": 0, "refused": 20, "timed_out": 1, "unreachable": 0})
    with runner.start("127.0.0.1", f"{port}-{port}") as scanner:
        output, errors = scanner.stop()
    equal((output, errors), ("127.0.0.1: 0 open, 0 refused, 0 unreachable, 0 timed_out\n", ""))
    for stream in [*holders, *fillers]:
        stream.close()


def gets_by_with_few_descriptors(runner):
    code, output, errors = runner.run("127.0.0.1", "1-1000", most_descriptors=20)
    equal((code, errors), (0, ""))
    found = summary(output)
    equal(sum(found.values()), 1000)
    equal(found["timed_out"], 0)


def takes_no_connection_to_itself_for_an_open_port(runner):
    """In a network of its own, where nothing listens and all local ports are scanned: each that
    looked open would be connected to itself. Nor is there a way to anybody else."""
    script = '"$0" 127.0.0.1 39800-40599 && "$0" 192.0.2.1 1-10'
    code, output, errors = runner.run_in_namespace(script)
    equal((code, errors), (0, ""))
    to_itself, to_nobody = output.splitlines()
    equal(to_itself, "127.0.0.1: 0 open, 800 refused, 0 unreachable, 0 timed_out")
    equal(to_nobody, "192.0.2.1: 0 open, 0 refused, 10 unreachable, 0 timed_out")


def check_all(runner):
    for arguments in (
        ["127.0.0.1", "0-5"],
        ["127.0.0.1", "5-1"],
        ["127.0.0.1", "1-65536"],
        ["127.0.0.1", "1-2x"],
        ["127.0.0.1:80", "1-2"],
        ["localhost", "1-2"],
    ):
        runner.fails(*arguments, code=2, says=["usage: ", "own hosts"])
    tells_open_ports_from_others(runner)
    tells_who_stays_silent(runner)
    gets_by_with_few_descriptors(runner)
    takes_no_connection_to_itself_for_an_open_port(runner)
