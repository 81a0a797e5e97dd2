# SPDX-License-Identifier: Apache-2.0
"""Starting and ending a program, and what the checks of all examples share."""

import os
import select
import signal
import socket
import subprocess
import sys
import time

# For a machine that is busy: nothing here takes as long when it works.
PATIENCE = 20

PATTERN = os.urandom(1 << 20)

# In a new network namespace: few local ports, and a loopback interface that is up.
ENTER_NAMESPACE = """
import fcntl, os, socket, struct, sys
try:
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as setting:
        setting.write("40000 40499")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
except OSError as reason:
    sys.exit(f"unshare: {reason}")
os.execv(sys.argv[1], sys.argv[1:])
"""


class Skipped(Exception):
    pass


def check(condition, *what):
    if not condition:
        raise AssertionError(*what)


def equal(found, expected):
    check(found == expected, f"found {found!r}, expected {expected!r}")


def wait_until(is_true, what):
    end = time.monotonic() + PATIENCE
    while not is_true():
        check(time.monotonic() < end, f"in vain: {what}")
        time.sleep(0.005)


class Program:
    """One that runs; killed, if it has not ended, when its `with` block is left."""

    def __init__(self, command, engine):
        self.engine = engine
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ, BERTH_ENGINE=engine),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def wait(self):
        """Its (exit code, output, errors), once it has ended by itself."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        if b"not supported here" in errors and self.engine.encode() in errors:
            raise Skipped(errors.decode().strip())
        return self.process.returncode, output.decode(), errors.decode()

    def address(self):
        """Where it listens, as its first line says."""
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
            check(ready, "it does not say where it listens")
            more = os.read(self.process.stdout.fileno(), 1)
            if not more:
                check(False, f"it has not started: {self.wait()}")
            line += more
        check(line.startswith(b"listening on 127.0.0.1:"), line)
        return "127.0.0.1", int(line.rsplit(b":", 1)[1])

    def wait_for_signals(self):
        """Until it would not be killed by SIGTERM."""

        def watches_sigterm():
            with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
                blocked = next(line for line in status if line.startswith("SigBlk:"))
            return int(blocked.split()[1], 16) & (1 << (signal.SIGTERM - 1))

        wait_until(lambda: self.process.poll() is not None or watches_sigterm(), "a signal watch")

    def stop(self, by=signal.SIGTERM):
        """Its (output, errors); it must end well and soon."""
        self.wait_for_signals()
        self.process.send_signal(by)
        code, output, errors = self.wait()
        check(code == 0, f"exit code {code} after signal {by}: {errors}")
        return output, errors

    def descriptor_count(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def has_errors(self):
        """Whether it has written any, which stay to be read by wait()."""
        return bool(select.select([self.process.stderr], [], [], 0)[0])


class Runner:
    """Starts one program over one engine."""

    def __init__(self, path, engine):
        self.path = path
        self.engine = engine

    def start(self, *arguments, most_descriptors=None):
        command = [self.path, *map(str, arguments)]
        if most_descriptors is not None:
            command = ["sh", "-c", f'ulimit -n {most_descriptors}; exec "$@"', "sh", *command]
        return Program(command, self.engine)

    def run(self, *arguments, **options):
        """To its end: (exit code, output, errors)."""
        with self.start(*arguments, **options) as program:
            return program.wait()

    def run_in_namespace(self, script):
        """A shell script in a network of its own, with the program as $0; skips where the kernel
        or a container does not let users make one."""
        command = [sys.executable, "-c", ENTER_NAMESPACE, "/bin/sh", "-c", script, self.path]
        with Program(["unshare", "-Urn", *command], self.engine) as program:
            code, output, errors = program.wait()
        if "unshare: " in errors:
            raise Skipped(errors.strip())
        return code, output, errors

    def fails(self, *arguments, code, says):
        """It must end with `code` and one line of errors, with each of `says` in it."""
        found, output, errors = self.run(*arguments)
        check(found == code and errors.count("\n") == 1, (arguments, found, output, errors))
        for text in says:
            check(text in errors, f"no {text!r} in {errors!r}")


def connect(address):
    return socket.create_connection(address, timeout=PATIENCE)


def receive_all(stream):
    pieces = []
    while piece := stream.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def pattern(size):
    """The first `size` bytes of what push() sends."""
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


def push(stream):
    """Sends until nobody takes more for a moment; how much it was. Sockets alone take up to 40 MiB
    each way, as much as net.ipv4.tcp_rmem and tcp_wmem let them; more than four times that means
    that somebody keeps whatever comes."""
    stream.setblocking(False)
    sent = 0
    while select.select([], [stream], [], 0.3)[1]:
        at = sent % len(PATTERN)
        sent += stream.send(PATTERN[at : at + (1 << 16)])
        check(sent < 256 << 20, "it takes whatever comes")
    stream.settimeout(PATIENCE)
    return sent


def full_listener(listener=None):
    """A listener that answers nobody any more, `listener` made so or a new one, and what has filled
    it."""
    listener = listener or unused_port()
    listener.listen(0)
    fillers = []
    for _ in range(3):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        fillers.append(filler)
    return listener, fillers


def unused_port():
    """A socket that keeps a port of 127.0.0.1 and does not listen."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    return holder
