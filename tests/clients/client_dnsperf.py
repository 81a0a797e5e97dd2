# SPDX-License-Identifier: Apache-2.0
"""dnsperf: a UDP port for each of its clients."""

import re
import socket

from stage import ALONE, BPF, HERE, PRELOAD, dns, drive as drive_in_namespace, promise


def drive(stage):
    stage.serve(dns(), 20053, socket.SOCK_DGRAM)
    names = stage.path("names", "".join(f"a{number}.example.org A\n" for number in range(100)))
    stage.hold(socket.SOCK_DGRAM, 80)
    found = {}
    for clients in (20, 30):
        end = stage.run("dnsperf", "-s", HERE, "-p", 20053, "-d", names, "-c", clients, "-n", 1)
        completed = re.search(r"Queries completed: +(\d+)", end.output)
        found[f"-c {clients}"] = {"code": end.code, "seconds": end.seconds,
                                  "completed": int(completed[1]) if completed else 0,
                                  "error": end.errors.strip().splitlines()[-1:]}
    return found


def say(found):
    return "; ".join(f"{name}: exit {each['code']}, {each['completed']} of 100 queries"
                     + (f" ({each['error'][0]})" if each["code"] else "")
                     for name, each in found.items())


def run(berth):
    alone, preload = (drive_in_namespace("dnsperf", way, berth) for way in (ALONE, PRELOAD))
    few = preload["-c 20"]
    promise(few["code"] == 0 and few["completed"] == 100, preload)
    return {
        "program": "dnsperf, 80 held",
        "calls": "bind(0)",
        "alone": say(alone),
        "preload": say(preload),
        "why not": "Twenty ports are twenty clients: it ends at the first that gets none.",
    }


def run_bpf(berth):
    found = drive_in_namespace("dnsperf", BPF, berth)
    few = found["-c 20"]
    promise(few["code"] == 0 and few["completed"] == 100, found)
    return say(found)
