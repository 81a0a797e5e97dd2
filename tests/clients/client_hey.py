# SPDX-License-Identifier: Apache-2.0
"""hey: a Go program, which makes its system calls itself."""

import re
import socket

from stage import HERE, drive as drive_in_namespace, http, promise


def drive(stage):
    stage.serve(http, 20000)
    stage.hold(socket.SOCK_STREAM, 90)
    end = stage.run("hey", "-n", "60", "-c", "20", "-disable-keepalive", f"http://{HERE}:20000/")
    answered = re.search(r"\[200\]\s+(\d+) responses", end.output)
    return {"code": end.code, "answered": int(answered[1]) if answered else 0,
            "errors": end.errors.strip()}


def run(berth):
    without, with_berth = drive_in_namespace("hey", None), drive_in_namespace("hey", berth)
    promise(with_berth["code"] == 3 and "Go program" in with_berth["errors"], with_berth)
    return {
        "program": "hey -n 60 -c 20 (Go), 90 held",
        "calls": "connect",
        "without": f"exit {without['code']}, {without['answered']} of 60 answered",
        "with": f"exit {with_berth['code']} before it starts",
        "why not": "A Go program does not call libc, so nothing can be preloaded into it, and "
                   "`berth run` says so. `berth run --bpf` and `berth attach`, as root, are "
                   "for it.",
    }
