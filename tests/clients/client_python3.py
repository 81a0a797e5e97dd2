# SPDX-License-Identifier: Apache-2.0
"""python3: bind(0), connect() and sendto() until nothing is left."""

import json
import socket

from stage import ALONE, BPF, HERE, PRELOAD, check, drive as drive_in_namespace, promise

SCRIPT = """
import errno, json, socket, statistics, time

def take(kind, get_port, reuse=False):
    held, errors, costs = [], [], []
    for _ in range(150):
        each = socket.socket(socket.AF_INET, kind)
        if reuse:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        began = time.perf_counter()
        try:
            get_port(each)
            held.append(each)
        except OSError as reason:
            errors.append(errno.errorcode[reason.errno])
            costs.append((time.perf_counter() - began) * 1e6)
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return {"sockets": len(ports), "ports": len(set(ports)), "errors": sorted(set(errors)),
            "failing_us": statistics.median(costs) if costs else 0}

tcp, udp = socket.SOCK_STREAM, socket.SOCK_DGRAM
print(json.dumps({
    "connect": take(tcp, lambda each: each.connect(("127.0.0.1", 20000))),
    "bind": take(udp, lambda each: each.bind(("", 0))),
    "bind_reuse": take(udp, lambda each: each.bind(("", 0)), reuse=True),
    "sendto": take(udp, lambda each: each.sendto(b"x", ("127.0.0.1", 20001))),
}))
"""


def drive(stage):
    held = []
    stage.serve(held.append, 20000)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind((HERE, 20001))
        end = stage.run("python3", "-c", SCRIPT)
    check(end.code == 0, end.errors)
    return json.loads(end.output)


def say(found):
    def each(name):
        what = found[name]
        errors = f"then {' '.join(what['errors'])} after {what['failing_us']:.0f} µs" \
            if what["errors"] else "no error"
        return f"{what['sockets']} sockets on {what['ports']} ports, {errors}"

    return (f"connect: {each('connect')}; UDP bind(0): {each('bind')}; with SO_REUSEADDR: "
            f"{each('bind_reuse')}; sendto: {each('sendto')}")


def promise_all_ports(found):
    for name, error in {"connect": "EADDRNOTAVAIL", "bind": "EADDRINUSE",
                        "bind_reuse": "EADDRINUSE", "sendto": "EAGAIN"}.items():
        each = found[name]
        promise((each["sockets"], each["ports"], each["errors"]) == (100, 100, [error]),
                (name, each))


def run(berth):
    alone, preload = (drive_in_namespace("python3", way, berth) for way in (ALONE, PRELOAD))
    promise_all_ports(preload)
    return {
        "program": "python3, 150 sockets, none held",
        "calls": "connect; bind(0); sendto",
        "alone": say(alone),
        "preload": say(preload),
        "why not": "Under --bpf sendto() without bind() is the kernel's own slow choice, made "
                   "before any hook; and a TCP connect() that finds no port asks the kernel too.",
    }


def run_bpf(berth):
    found = drive_in_namespace("python3", BPF, berth)
    promise_all_ports(found)
    return say(found)
