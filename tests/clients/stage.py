# SPDX-License-Identifier: Apache-2.0
"""What a program is driven on: its network namespace, who holds the ports, whom it talks to."""

import collections
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

FIRST, LAST = 40000, 40099
# How a program is driven: by itself, under `berth run`, under `berth run --bpf`.
ALONE, PRELOAD, BPF = "alone", "preload", "bpf"
HERE = "127.0.0.1"
# For one program, driven once; nothing here takes as long when it works.
PATIENCE = 60

ENTER_NAMESPACE = f"""
import fcntl, os, socket, struct, subprocess, sys
try:
    # `berth run` keeps its files there, and takes those of processes that it cannot see for
    # abandoned.
    subprocess.run(["mount", "-t", "tmpfs", "none", "/dev/shm"], check=True)
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as setting:
        setting.write("{FIRST} {LAST}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
except (OSError, subprocess.CalledProcessError) as reason:
    sys.exit(f"unshare: {{reason}}")
os.execv(sys.argv[1], sys.argv[1:])
"""


class Missing(Exception):
    """A program that is not installed, or a namespace that cannot be made."""


def check(condition, *what):
    if not condition:
        raise AssertionError(*what)


# What did not hold in this run; the row is shown all the same.
broken = []


def promise(condition, what):
    if not condition:
        broken.append(str(what))


def find(program):
    path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if path is None:
        raise Missing(f"{program} is not installed")
    return path


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def why_no_bpf(berth):
    """Why `berth run --bpf` cannot be; nothing where it can."""
    if os.geteuid() != 0:
        return "not root"
    end = subprocess.run([berth, "run", "--bpf", "--", "true"], stdin=subprocess.DEVNULL,
                         timeout=PATIENCE, capture_output=True, text=True, check=False)
    if end.returncode == 0:
        return ""
    return end.stderr.strip().removeprefix("berth run: ") or f"exit {end.returncode}"


def drive(module, way, berth, *words):
    """What the module's drive(stage, *words) found, in namespaces of its own: when it ends, or is
    killed, all that it has started ends."""
    user = [] if os.geteuid() == 0 else ["-Ur"]
    command = ["unshare", *user, "-n", "-p", "-f", "-m", "--kill-child", "--mount-proc",
               sys.executable, "-c", ENTER_NAMESPACE, sys.executable,
               os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_clients"),
               "--inside", module, way, berth, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True,
                          preexec_fn=end_with_parent) as process:
        try:
            output, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    if "unshare: " in errors:
        raise Missing(errors.strip())
    check(process.returncode == 0, f"{module}: {errors}")
    return json.loads(output)


class Ended:
    def __init__(self, code, output, errors, seconds):
        self.code, self.seconds = code, seconds
        self.output, self.errors = output, errors

    def count(self, pattern):
        return len(re.findall(pattern, self.output + self.errors))


class Stage:
    """One driving of one program; `berth` is the command."""

    def __init__(self, way, berth):
        self.way, self.berth = way, berth
        self.at_end = contextlib.ExitStack()
        self.directory = self.at_end.enter_context(tempfile.TemporaryDirectory())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.at_end.close()

    def path(self, name, text=None):
        path = os.path.join(self.directory, name)
        if text is not None:
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        return path

    def command(self, *words, options=(), counts=None):
        program = [find(words[0]), *map(str, words[1:])]
        if counts:
            program = [find("strace"), "-f", "--seccomp-bpf", "-c", "-o", self.path("calls"), "-e",
                       f"trace={counts}", *program]
        if self.way == ALONE:
            return program
        return [self.berth, "run", *(["--bpf"] if self.way == BPF else []), *options, "--",
                *program]

    def run(self, *words, **how):
        """To its end."""
        began = time.monotonic()
        end = subprocess.run(self.command(*words, **how), stdin=subprocess.DEVNULL,
                             timeout=PATIENCE, capture_output=True, text=True,
                             errors="replace", check=False)
        return Ended(end.returncode, end.stdout, end.stderr, time.monotonic() - began)

    def start(self, *words, port=None, **how):
        """A server, which has begun when something listens at `port`. Without `counts` or berth
        it is the process itself, otherwise what that runs."""
        return self.start_command(self.command(*words, **how), port)

    def beside(self, *words, port=None):
        """A server that is never under berth."""
        return self.start_command([find(words[0]), *words[1:]], port)

    def start_command(self, command, port):
        log = open(self.path("log"), "a", encoding="ascii")  # noqa: SIM115: for the process
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.at_end.callback(self.stop, process)
        end = time.monotonic() + 10
        while not is_served(port):
            check(process.poll() is None and time.monotonic() < end, self.log())
            time.sleep(0.01)
        return process

    def stop(self, process):
        if process.poll() is None:
            os.kill(last_child(process.pid), signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def calls(self):
        """What strace counted: name → (calls, errors)."""
        counted = collections.defaultdict(lambda: (0, 0))
        with open(self.path("calls"), encoding="ascii") as file:
            for line in file:
                words = line.split()
                if len(words) in (5, 6) and words[3].isdigit() and words[-1] != "total":
                    counted[words[-1]] = (int(words[3]), int(words[4]) if len(words) == 6 else 0)
        return counted

    def hold(self, kind, count):
        """Takes the first `count` ports of the range, until they are closed."""
        held = [socket.socket(socket.AF_INET, kind) for _ in range(count)]
        for number, each in enumerate(held):
            each.bind(("", FIRST + number))
            self.at_end.callback(each.close)
        return held

    def hold_rest(self, kind):
        """Takes whatever is left of the range."""
        for port in range(FIRST, LAST + 1):
            each = socket.socket(socket.AF_INET, kind)
            self.at_end.callback(each.close)
            with contextlib.suppress(OSError):
                each.bind(("", port))

    def serve(self, answer, port, kind=socket.SOCK_STREAM):
        """Answers in a thread for each connection, or for each datagram."""
        server = socket.socket(socket.AF_INET, kind)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((HERE, port))
        if kind == socket.SOCK_STREAM:
            server.listen(1000)

        def accept():
            while True:
                if kind == socket.SOCK_STREAM:
                    what = (server.accept()[0],)
                else:
                    data, sender = server.recvfrom(4096)
                    what = (server, data, sender)
                threading.Thread(target=answer, args=what, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()


def last_child(pid):
    """Of berth, which starts strace, which starts the program."""
    while children := children_of(pid):
        if os.readlink(f"/proc/{pid}/exe").rsplit("/")[-1] not in ("berth", "strace"):
            break
        pid = children[0]
    return pid


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [int(each) for each in children.read().split()]


def sockets_here():
    """(protocol, local port, state) of every IPv4 socket of the namespace."""
    for protocol in ("tcp", "udp"):
        with open(f"/proc/net/{protocol}", encoding="ascii") as sockets:
            next(sockets)
            for line in sockets:
                _, local, _, state = line.split()[:4]
                yield protocol, int(local.rsplit(":")[-1], 16), state


def is_served(port):
    return any(each == port and state in ("0A", "07") for _, each, state in sockets_here())


def wait_until_held(protocol, count):
    """Until so many ports of the range are held, by whomever."""
    end = time.monotonic() + 10
    while sum(each == protocol and FIRST <= port <= LAST
              for each, port, _ in sockets_here()) != count:
        check(time.monotonic() < end, f"{count} ports are not held")
        time.sleep(0.01)


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def http(stream):
    """Answers each request on the connection."""
    with stream, contextlib.suppress(OSError):
        while stream.recv(65536):
            stream.sendall(ANSWER)


def http_once(stream):
    """Answers one request with a body that ends as the connection does, which the server so closes
    first: TIME_WAIT is the server's."""
    with stream, contextlib.suppress(OSError):
        stream.recv(65536)
        stream.sendall(b"HTTP/1.0 200 OK\r\n\r\nok")


def slow_http(seconds):
    def answer(stream):
        with stream, contextlib.suppress(OSError):
            while stream.recv(65536):
                time.sleep(seconds)
                stream.sendall(ANSWER)

    return answer


def query(name, number=1):
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split("."))
    return number.to_bytes(2) + b"\1\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1"


def dns(seconds=0):
    """An upstream name server that has 192.0.2.1 for every name, `seconds` later."""

    def answer(server, data, sender):
        time.sleep(seconds)
        end = data.index(b"\0", 12) + 5
        server.sendto(data[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + data[12:end]
                      + b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\xc0\0\2\1", sender)

    return answer


RCODES = {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED"}


def ask(port, name, seconds=10):
    """(RCODE or "none", how many milliseconds it took)"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        bind_outside(client)
        client.settimeout(seconds)
        began = time.monotonic()
        client.sendto(query(name), (HERE, port))
        try:
            rcode = RCODES[client.recv(4096)[3] & 15]
        except TimeoutError:
            rcode = "none"
        return rcode, (time.monotonic() - began) * 1e3


def get(port, seconds=10):
    """(HTTP status or "none", milliseconds): one request, from outside the range."""
    with socket.socket() as client:
        client.settimeout(seconds)
        began = time.monotonic()
        try:
            bind_outside(client)
            client.connect((HERE, port))
            client.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            status = client.recv(4096)[9:12].decode() or "none"
        except OSError:
            status = "none"
        return status, (time.monotonic() - began) * 1e3


_ports = iter(range(10300, 19000))


def bind_outside(client):
    """The driver's own connections take none of the range."""
    client.bind((HERE, next(_ports)))


def get_many(port, count):
    """Answers of `count` requests at once: how many of each status, and their milliseconds."""
    found = [None] * count

    def each(number):
        found[number] = get(port)

    threads = [threading.Thread(target=each, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "statuses": dict(collections.Counter(status for status, _ in found)),
        "ms": {status: statistics.median(ms for each, ms in found if each == status)
               for status in {each for each, _ in found}},
    }
