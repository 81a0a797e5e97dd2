# SPDX-License-Identifier: Apache-2.0
"""redis-benchmark -k 0: a connection a request, which the client closes first."""

import re

from stage import ALONE, BPF, HERE, PRELOAD, drive as drive_in_namespace, promise


def drive(stage, *options):
    stage.beside("redis-server", "--port", "20000", "--save", "", "--bind", HERE, port=20000)
    end = stage.run("redis-benchmark", "-h", HERE, "-p", "20000", "-c", "20", "-k", "0",
                    "-n", "300", "-t", "ping_mbulk", "-q", options=options)
    rate = re.findall(r"([\d.]+) requests per second", end.output)
    return {"code": end.code, "seconds": end.seconds, "rate": float(rate[-1]) if rate else 0,
            "refused": end.count("Cannot assign requested address")}


def say(found):
    if found["code"] == 0:
        return f"300 requests done in {found['seconds']:.1f} s, {found['rate']:.0f} a second"
    return f"exit {found['code']} after {found['seconds']:.2f} s, " \
           f"{found['refused']}× Cannot assign requested address"


def run(berth):
    alone, plain, waiting = (drive_in_namespace("redis_benchmark", *how) for how in (
        [ALONE, berth], [PRELOAD, berth], [PRELOAD, berth, "--when-full", "wait=10"]))
    promise(waiting["code"] == 0, waiting)
    return {
        "program": "redis-benchmark -k 0 -c 20 -n 300, none held",
        "calls": "connect",
        "alone": say(alone),
        "preload": f"{say(plain)}; --when-full wait=10: {say(waiting)}",
        "why not": "It closes first: each port is in TIME_WAIT, and another connection may have "
                   "it a second later (loopback). 100 ports are 100 connections a second; who "
                   "does not wait fails, and under --bpf nothing waits.",
    }


def run_bpf(berth):
    found = drive_in_namespace("redis_benchmark", BPF, berth)
    promise(found["code"] == 1 and found["refused"] == 1, found)
    return say(found)
