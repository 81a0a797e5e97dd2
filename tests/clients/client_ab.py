# SPDX-License-Identifier: Apache-2.0
"""ab: a connection a request, more at once than there are ports."""

import re
import socket

from stage import ALONE, BPF, HERE, PRELOAD, drive as drive_in_namespace, http_once, promise


def drive(stage, concurrency, *options):
    stage.serve(http_once, 20000)
    stage.hold(socket.SOCK_STREAM, 90)
    end = stage.run("ab", "-q", "-n", "200", "-c", concurrency, f"http://{HERE}:20000/",
                    options=options)
    complete = re.search(r"Complete requests: +(\d+)", end.output)
    aborted = re.search(r"(Total of \d+ requests completed|apr_\w+\(\): [^\n]*)",
                        end.output + end.errors)
    return {"code": end.code, "complete": int(complete[1]) if complete else 0,
            "aborted": aborted[1] if aborted else "", "seconds": end.seconds}


def say(concurrency, found):
    end = f"; {found['aborted']}" if found["aborted"] else ""
    return f"-c {concurrency}: exit {found['code']}, {found['complete']} of 200{end}, " \
           f"{found['seconds']:.1f} s"


def run(berth):
    few = [drive_in_namespace("ab", way, berth, "5") for way in (ALONE, PRELOAD)]
    many = [drive_in_namespace("ab", *each) for each in (
        [ALONE, berth, "20"], [PRELOAD, berth, "20", "--when-full", "wait=1"])]
    promise(few[1]["code"] == 0 and few[1]["complete"] == 200, few[1])
    return {
        "program": "ab -n 200, 90 held",
        "calls": "connect",
        "alone": f"{say(5, few[0])}. {say(20, many[0])}",
        "preload": f"{say(5, few[1])}. With --when-full wait=1, {say(20, many[1])}",
        "why not": "Ten ports are ten connections at once. One thread has all connections: "
                   "while it waits for a port in connect(), it closes none.",
    }


def run_bpf(berth):
    few, many = (drive_in_namespace("ab", BPF, berth, each) for each in ("5", "20"))
    promise(few["code"] == 0 and few["complete"] == 200, few)
    return f"{say(5, few)}. {say(20, many)}"
