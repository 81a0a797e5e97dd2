# SPDX-License-Identifier: Apache-2.0
"""hey: a Go program, which makes its system calls itself."""

import re
import socket

from stage import ALONE, BPF, HERE, PRELOAD, drive as drive_in_namespace, http_once, promise


def drive(stage):
    stage.serve(http_once, 20000)
    stage.hold(socket.SOCK_STREAM, 90)
    found = {}
    for connections in (5, 20):
        end = stage.run("hey", "-n", "60", "-c", connections, "-disable-keepalive",
                        f"http://{HERE}:20000/",
                        options=["--stats"] if stage.way == BPF else [])
        answered = re.search(r"\[200\]\s+(\d+) responses", end.output)
        given = re.search(r"tcp: (\d+) ports given", end.errors)
        found[f"-c {connections}"] = {"code": end.code, "errors": end.errors.strip(),
                                      "answered": int(answered[1]) if answered else 0,
                                      "given": int(given[1]) if given else 0}
    return found


def say(found):
    return "; ".join(f"{name}: exit {each['code']}, {each['answered']} of 60 answered"
                     for name, each in found.items())


def run(berth):
    alone, preload = (drive_in_namespace("hey", way, berth) for way in (ALONE, PRELOAD))
    refused = preload["-c 5"]
    promise(refused["code"] == 3 and "Go program" in refused["errors"], preload)
    return {
        "program": "hey -n 60 (Go), 90 held",
        "calls": "connect",
        "alone": say(alone),
        "preload": f"exit {refused['code']} before it starts",
        "why not": "A Go program does not call libc, so nothing can be preloaded into it, and "
                   "`berth run` says so; --bpf and `berth attach`, as root, are for it. Ten ports "
                   "are ten connections at once.",
    }


def run_bpf(berth):
    found = drive_in_namespace("hey", BPF, berth)
    few = found["-c 5"]
    promise(few["code"] == 0 and few["answered"] == 60 and few["given"] > 10, found)
    promise(found["-c 20"]["answered"] >= 10, found)
    return say(found)
