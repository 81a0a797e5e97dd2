# SPDX-License-Identifier: Apache-2.0
"""sipp -t un: a UDP port a call."""

import re
import socket

from stage import ALONE, BPF, HERE, PRELOAD, drive as drive_in_namespace, promise

# All calls begin within a second, and each lasts two.
CALL = ["-sn", "uac", "-t", "un", "-nostdin", "-i", HERE, "-p", "15060", "-d", "2000",
        "-timeout", "15s", "-max_socket", "200"]


def drive(stage):
    stage.beside("sipp", "-sn", "uas", "-i", HERE, "-p", "20060", "-nostdin", "-timeout", "40s",
                 port=20060)
    stage.hold(socket.SOCK_DGRAM, 80)
    found = {}
    for calls in (10, 40):
        end = stage.run("sipp", f"{HERE}:20060", *CALL, "-m", calls, "-r", calls)
        error = re.search(r"Unable to bind[^\n]*", end.output + end.errors)
        found[f"{calls} calls at once"] = {"code": end.code, "error": error[0] if error else ""}
    return found


def say(found):
    return "; ".join(f"{name}: exit {each['code']}"
                     + (f" ({each['error']})" if each["error"] else "")
                     for name, each in found.items())


def run(berth):
    alone, preload = (drive_in_namespace("sipp", way, berth) for way in (ALONE, PRELOAD))
    promise(preload["10 calls at once"]["code"] == 0, preload)
    return {
        "program": "sipp -t un, 80 held",
        "calls": "bind(0)",
        "alone": say(alone),
        "preload": say(preload),
        "why not": "It keeps a port for each call that it has open, and ends at the first that "
                   "gets none.",
    }


def run_bpf(berth):
    found = drive_in_namespace("sipp", BPF, berth)
    promise(found["10 calls at once"]["code"] == 0, found)
    return say(found)
