# SPDX-License-Identifier: Apache-2.0
"""wrk: more connections than there are ports."""

import re
import socket
import time

from stage import ALONE, BPF, HERE, PRELOAD, drive as drive_in_namespace, http, promise


def drive(stage):
    stage.serve(http, 20000)
    stage.hold(socket.SOCK_STREAM, 90)
    found = {}
    for connections in (9, 20):
        time.sleep(1.1)  # until the TIME_WAIT of the last ones may be reused
        end = stage.run("wrk", "-t1", f"-c{connections}", "-d1s", f"http://{HERE}:20000/")
        errors = re.search(r"Socket errors: connect (\d+)", end.output)
        rate = re.search(r"Requests/sec: +([\d.]+)", end.output)
        found[f"-c{connections}"] = {"code": end.code, "errors": int(errors[1]) if errors else 0,
                                     "rate": float(rate[1]) if rate else 0}
    return found


def say(found):
    return "; ".join(f"{name}: exit {each['code']}, {each['errors']} failed connects, "
                     f"{'requests go on' if each['rate'] else 'no requests'}"
                     for name, each in found.items())


def run(berth):
    alone, preload = (drive_in_namespace("wrk", way, berth) for way in (ALONE, PRELOAD))
    promise(preload["-c9"]["errors"] == 0 and preload["-c9"]["rate"] > 0, preload)
    promise(preload["-c20"]["errors"] <= alone["-c20"]["errors"], (alone, preload))
    return {
        "program": "wrk, 90 held, connections that stay open",
        "calls": "connect",
        "alone": say(alone),
        "preload": say(preload),
        "why not": "Ten ports are ten connections to one destination (wrk makes one more than -c"
                   " says, first), and these are never closed: nothing to wait for.",
    }


def run_bpf(berth):
    found = drive_in_namespace("wrk", BPF, berth)
    promise(found["-c9"]["errors"] == 0 and found["-c9"]["rate"] > 0, found)
    return say(found)
