# SPDX-License-Identifier: Apache-2.0
"""http_file_server: what HTTP asks for, and what it must not do."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile

from program import PATIENCE, check, connect, equal, receive_all

LARGE = os.urandom(1 << 20) * 8


class Client:
    """One connection, which reads answers by their length."""

    def __init__(self, address):
        self.socket = connect(address)
        self.input = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.input.close()
        self.socket.close()

    def send(self, text):
        self.socket.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))

    def answer(self, has_body=True):
        """(status, fields, body)"""
        line = self.input.readline().decode("latin-1")
        check(line.startswith("HTTP/1.1 ") and line.endswith("\r\n"), f"no status line: {line!r}")
        fields = {}
        while (field := self.input.readline().decode("latin-1").strip()) != "":
            name, value = field.split(": ", 1)
            fields[name.lower()] = value
        size = int(fields["content-length"]) if has_body else 0
        return int(line.split(" ")[1]), fields, self.input.read(size)

    def ask(self, target, method="GET", fields=""):
        self.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
        return self.answer(method != "HEAD")

    def is_closed(self):
        with contextlib.suppress(ConnectionResetError):
            return self.input.read(1) == b""
        return True


def make_site(outside):
    root = os.path.join(outside, "site")
    os.makedirs(os.path.join(root, "sub"))
    for name, content in {
        "../secret": b"secret",
        "a.txt": b"0123456789",
        "empty": b"",
        "large.bin": LARGE,
        "with space": b"spaced",
        "sub/index.html": b"<p>index",
    }.items():
        with open(os.path.join(root, name), "wb") as file:
            file.write(content)
    os.mkfifo(os.path.join(root, "fifo"))
    os.symlink("../secret", os.path.join(root, "way-out"))
    os.symlink("/etc/passwd", os.path.join(root, "far-out"))
    os.symlink("a.txt", os.path.join(root, "inside"))
    return root


def files_over_one_connection(address):
    with Client(address) as client:
        status, fields, body = client.ask("/a.txt")
        equal((status, body), (200, b"0123456789"))
        equal(fields["content-type"], "text/plain; charset=utf-8")
        check("date" in fields and "connection" not in fields, fields)
        equal(client.ask("/empty")[::2], (200, b""))
        equal(client.ask("/with%20space?query")[2], b"spaced")
        equal(client.ask("/inside")[2], b"0123456789")
        equal(client.ask("http://x/a.txt")[2], b"0123456789")
        for directory in "/sub", "/sub/":
            equal(client.ask(directory)[2], b"<p>index")
        check(client.ask("/large.bin")[2] == LARGE, "a large file comes changed")
        status, fields, body = client.ask("/large.bin", method="HEAD")
        equal((status, fields["content-length"], body), (200, str(len(LARGE)), b""))


def parts_of_files(address):
    with Client(address) as client:

        def part(text):
            status, fields, body = client.ask("/a.txt", fields=f"Range: bytes={text}\r\n")
            return status, fields.get("content-range"), body

        equal(part("2-4"), (206, "bytes 2-4/10", b"234"))
        equal(part("7-"), (206, "bytes 7-9/10", b"789"))
        equal(part("-1"), (206, "bytes 9-9/10", b"9"))
        equal(part("10-")[:2], (416, "bytes */10"))
        equal(part("0-1,4-5")[0], 200)


def nothing_outside_of_the_directory(address):
    with Client(address) as client:
        for target in (
            "/../secret",
            "/%2e%2e/secret",
            "/sub/../../secret",
            "/..%2fsecret",
            "//etc/passwd",
            "/%2fetc/passwd",
            "/way-out",
            "/far-out",
            "/fifo",
            "/missing",
            "/a.txt/",
            "/sub/nothing",
        ):
            status, _, body = client.ask(target)
            check(status == 404 and b"secret" not in body, target, status, body)
        equal(client.ask("/sub/../a.txt")[2], b"0123456789")
        for target in "/%00", "/%zz", "/a%2", "*", "a.txt":
            equal(client.ask(target)[0], 400)


def requests_that_come_together_or_in_pieces(address):
    request = b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n"
    with Client(address) as client:
        client.send(request * 20)
        for _ in range(20):
            equal(client.answer()[2], b"0123456789")
        for at in range(len(request)):
            client.send(request[at : at + 1])
        equal(client.answer()[2], b"0123456789")
        client.ask("/a.txt", fields="Connection: close\r\n")
        check(client.is_closed(), "it goes on after the last answer")
    with connect(address) as stream:
        stream.sendall(b"GET /a.txt HTTP/1.0\r\n\r\n")
        check(receive_all(stream).endswith(b"\r\n\r\n0123456789"), "HTTP/1.0")


def what_it_refuses(address):
    host = "Host: x\r\n"
    for request, expected in {
        f"POST /a.txt HTTP/1.1\r\n{host}\r\n": 405,
        f"GET /a.txt HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\nhello": 413,
        f"GET /a.txt HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n": 413,
        f"GET /a.txt HTTP/2.0\r\n{host}\r\n": 505,
        f"GET /a.txt HTTP/1.1\r\n{host}X: {'y' * 9000}": 431,
        "GET /a.txt HTTP/1.1\r\n\r\n": 400,
        f"GET /a.txt HTTP/1.1\r\n{host}{host}\r\n": 400,
        f"GET /a.txt HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n": 400,
        f"GET /a.txt HTTP/1.1\r\n{host}Content-Length: 1\r\nTransfer-Encoding: x\r\n\r\n": 400,
        f"GET /a.txt HTTP/1.1\r\n{host}Name : x\r\n\r\n": 400,
        f"GET  /a.txt HTTP/1.1\r\n{host}\r\n": 400,
        "nonsense\r\n\r\n": 400,
    }.items():
        with Client(address) as client:
            client.send(request)
            status, fields, _ = client.answer()
            check(status == expected, f"{request[:80]!r}: {status}, not {expected}")
            if expected == 405:
                equal(fields["allow"], "GET, HEAD")
            else:
                check(client.is_closed(), f"it goes on after {expected}")
    with Client(address) as client:  # an answer is read although more is sent than is read
        client.send(f"POST / HTTP/1.1\r\n{host}Content-Length: 3000000\r\n\r\n" + "x" * 3_000_000)
        equal(client.answer()[0], 405)


def who_takes_too_long(runner, root):
    with runner.start("127.0.0.1:0", root, 2) as server:
        address = server.address()
        with Client(address) as silent, Client(address) as slow:
            slow.send("GET /a.txt HT")
            equal(slow.answer()[0], 408)
            check(slow.is_closed() and silent.is_closed(), "it waits for ever")


def with_curl(address):
    if shutil.which("curl") is None:
        return
    url = "http://%s:%d/large.bin" % address
    done = subprocess.run(["curl", "-sS", url], capture_output=True, timeout=PATIENCE, check=True)
    check(done.stdout == LARGE, "curl gets something else")


def check_all(runner):
    runner.fails("127.0.0.1:0", "/missing", code=1, says=["/missing", "name a directory"])
    runner.fails("127.0.0.1:0", "/", "never", code=2, says=["usage: "])
    with tempfile.TemporaryDirectory() as outside:
        root = make_site(outside)
        with runner.start("127.0.0.1:0", root, PATIENCE) as server:
            address = server.address()
            files_over_one_connection(address)
            parts_of_files(address)
            nothing_outside_of_the_directory(address)
            requests_that_come_together_or_in_pieces(address)
            what_it_refuses(address)
            with_curl(address)
            with connect(address) as stream:  # a download that nobody reads does not hold it up
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stream.sendall(b"GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n")
                equal(server.stop(), ("", ""))
        who_takes_too_long(runner, root)
