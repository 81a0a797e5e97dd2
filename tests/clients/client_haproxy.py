# SPDX-License-Identifier: Apache-2.0
"""haproxy as a proxy: more requests at once than there are ports."""

import socket
import time

from client_nginx import say
from stage import (
    ALONE, BPF, HERE, PRELOAD, drive as drive_in_namespace, get_many, promise, slow_http,
)

CONFIGURATION = f"""
global
  maxconn 1000
defaults
  mode http
  retries 0
  option http-server-close
  timeout connect 5s
  timeout client 10s
  timeout server 10s
frontend in
  bind {HERE}:8080
  default_backend out
backend out
  server one {HERE}:20000
"""


def drive(stage, *options):
    stage.serve(slow_http(0.3), 20000)
    file = stage.path("haproxy.cfg", CONFIGURATION)
    stage.hold(socket.SOCK_STREAM, 80)
    stage.start("haproxy", "-db", "-f", file, port=8080, options=options)
    found = {"15": get_many(8080, 15)}
    time.sleep(1.2)
    found["40"] = get_many(8080, 40)
    time.sleep(1.2)
    found["again"] = get_many(8080, 15)
    return found


def run(berth):
    alone, plain, waiting = (drive_in_namespace("haproxy", *how) for how in (
        [ALONE, berth], [PRELOAD, berth], [PRELOAD, berth, "--when-full", "wait=1"]))
    promise(plain["15"]["statuses"] == {"200": 15}, plain)
    promise(plain["40"]["statuses"].get("200", 0) >= 20, plain)
    promise(plain["again"]["statuses"] == {"200": 15}, plain)
    return {
        "program": "haproxy, a proxy before a server that takes 0.3 s; 80 held",
        "calls": "connect",
        "alone": say(alone),
        "preload": f"{say(plain)}. With --when-full wait=1: {say(waiting)}",
        "why not": "As nginx: twenty ports are twenty requests at once, and who waits in "
                   "connect() serves nobody meanwhile. It resets its connections, so no port is "
                   "in TIME_WAIT.",
    }


def run_bpf(berth):
    found = drive_in_namespace("haproxy", BPF, berth)
    promise(found["15"]["statuses"] == {"200": 15}, found)
    promise(found["again"]["statuses"] == {"200": 15}, found)
    promise(found["40"]["statuses"].get("200", 0) >= 20, found)
    return say(found)
