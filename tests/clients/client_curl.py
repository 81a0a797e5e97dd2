# SPDX-License-Identifier: Apache-2.0
"""curl: one connection a process, with few ports and with none; and with one that comes late."""

import collections
import socket
import statistics
import threading

from stage import ALONE, BPF, HERE, PRELOAD, drive as drive_in_namespace, http_once, promise

HELD = socket.SOCK_STREAM


def many(stage, *options):
    ends = [stage.run("curl", "-sS", "-o", "/dev/null", *options, f"http://{HERE}:20000/")
            for _ in range(2 if stage.way == BPF else 10)]
    return {"codes": dict(collections.Counter(end.code for end in ends)),
            "ms": statistics.median(end.seconds for end in ends) * 1e3}


def drive(stage):
    stage.serve(http_once, 20000)
    found = {}
    held = stage.hold(HELD, 99)
    found["at 99"] = many(stage)
    found["at 99, --interface"] = many(stage, "--interface", HERE)
    stage.hold_rest(socket.SOCK_STREAM)
    found["at 100"] = many(stage)
    found["at 100, --interface"] = many(stage, "--interface", HERE)
    if stage.way != BPF:
        threading.Timer(0.5, held[0].close).start()
        end = stage.run("curl", "-sS", f"http://{HERE}:20000/",
                        options=["--when-full", "wait=10"])
        found["late"] = {"code": end.code, "seconds": end.seconds, "errors": end.errors.strip()}
    return found


def codes(found):
    return ", ".join(f"{count}× exit {code}" for code, count in found.items())


def say(found):
    text = "; ".join(f"{name} held: {codes(found[name]['codes'])}, {found[name]['ms']:.0f} ms each"
                     for name in ("at 99", "at 99, --interface", "at 100", "at 100, --interface"))
    if late := found.get("late"):
        text += f"; one port free after 0.5 s: exit {late['code']} after {late['seconds']:.2f} s"
    return text


def run(berth):
    alone, preload = (drive_in_namespace("curl", way, berth) for way in (ALONE, PRELOAD))
    promise(preload["at 99"]["codes"] == {"0": 10}, preload)
    promise(preload["at 100"]["codes"] == {"7": 10}, preload)
    promise(preload["late"]["code"] == 0, preload["late"])
    return {
        "program": "curl, ten in a row, then one that may wait (--when-full wait=10)",
        "calls": "connect; --interface: bind(0) with IP_BIND_ADDRESS_NO_PORT",
        "alone": say(alone),
        "preload": say(preload),
        "why not": "Each curl is a `berth run` of its own here, whose start costs more than any "
                   "port search; with --bpf, which loads programs into the kernel, most (so two "
                   "in a row there).",
    }


def run_bpf(berth):
    found = drive_in_namespace("curl", BPF, berth)
    promise(found["at 99"]["codes"] == {"0": 2}, found)
    promise(found["at 100"]["codes"] == {"7": 2}, found)
    return say(found)
