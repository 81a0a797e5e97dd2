# SPDX-License-Identifier: Apache-2.0
"""iperf3: a connection a stream, and one more."""

import json
import socket

from stage import ALONE, BPF, HERE, PRELOAD, drive as drive_in_namespace, promise


def drive(stage):
    stage.hold(socket.SOCK_STREAM, 95)
    found = {}
    for number, streams in enumerate((4, 8)):
        port = 20000 + number
        stage.beside("iperf3", "-s", "-1", "-B", HERE, "-p", str(port), port=port)
        end = stage.run("iperf3", "-c", HERE, "-p", port, "-P", streams, "-t", 1, "-J")
        result = json.loads(end.output or "{}")
        found[f"-P {streams}"] = {"code": end.code, "error": result.get("error", ""),
                                  "streams": len(result.get("end", {}).get("streams", []))}
    return found


def say(found):
    return "; ".join(f"{name}: exit {each['code']}, {each['streams']} streams"
                     + (f" ({each['error']})" if each["error"] else "")
                     for name, each in found.items())


def run(berth):
    alone, preload = (drive_in_namespace("iperf3", way, berth) for way in (ALONE, PRELOAD))
    promise(preload["-P 4"]["streams"] == 4, preload)
    return {
        "program": "iperf3, 95 held",
        "calls": "connect",
        "alone": say(alone),
        "preload": say(preload),
        "why not": "Five ports are four streams and their control connection.",
    }


def run_bpf(berth):
    found = drive_in_namespace("iperf3", BPF, berth)
    promise(found["-P 4"]["streams"] == 4, found)
    return say(found)
