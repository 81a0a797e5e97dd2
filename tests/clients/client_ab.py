# SPDX-License-Identifier: Apache-2.0
"""ab: a connection a request, more at once than there are ports."""

import re
import socket

from stage import HERE, drive as drive_in_namespace, http_once, promise


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
    few = [drive_in_namespace("ab", each, "5") for each in (None, berth)]
    many = [drive_in_namespace("ab", *each) for each in (
        [None, "20"], [berth, "20", "--when-full", "wait=1"])]
    promise(few[1]["code"] == 0 and few[1]["complete"] == 200, few[1])
    return {
        "program": "ab -n 200, 90 held",
        "calls": "connect",
        "without": f"{say(5, few[0])}. {say(20, many[0])}",
        "with": f"{say(5, few[1])}. With --when-full wait=1, {say(20, many[1])}",
        "why not": "Ten ports are ten connections at once. One thread has all connections: "
                   "while it waits for a port in connect(), it closes none.",
    }
