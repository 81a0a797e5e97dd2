# SPDX-License-Identifier: Apache-2.0
"""nginx as a proxy: more requests at once than there are ports."""

import socket
import time

from stage import (
    ALONE, BPF, HERE, PRELOAD, drive as drive_in_namespace, get_many, promise, slow_http,
)

CONFIGURATION = f"""
daemon off;
user root;
worker_processes 2;
error_log DIRECTORY/error.log;
pid DIRECTORY/pid;
events {{ worker_connections 1000; }}
http {{
  access_log off;
  client_body_temp_path DIRECTORY/body;
  proxy_temp_path DIRECTORY/proxy;
  fastcgi_temp_path DIRECTORY/fastcgi;
  uwsgi_temp_path DIRECTORY/uwsgi;
  scgi_temp_path DIRECTORY/scgi;
  server {{ listen {HERE}:8080; location / {{ proxy_pass http://{HERE}:20000; }} }}
}}
"""


def drive(stage, *options):
    stage.serve(slow_http(0.3), 20000)
    file = stage.path("nginx.conf", CONFIGURATION.replace("DIRECTORY", stage.directory))
    stage.hold(socket.SOCK_STREAM, 80)
    stage.start("nginx", "-c", file, port=8080, options=options)
    found = {"15": get_many(8080, 15)}
    time.sleep(1.2)
    found["40"] = get_many(8080, 40)
    time.sleep(1.2)
    found["again"] = get_many(8080, 15)
    with open(stage.path("error.log"), encoding="utf-8") as log:
        found["logged"] = log.read().count("99: Cannot assign requested address")
    return found


def say_one(found):
    return ", ".join(f"{count}× {status} in {found['ms'][status]:.0f} ms"
                     for status, count in sorted(found["statuses"].items()))


def say(found):
    return f"15 at once: {say_one(found['15'])}; 40 at once: {say_one(found['40'])}; 15 again: " \
           f"{say_one(found['again'])}"


def run(berth):
    alone, plain, waiting = (drive_in_namespace("nginx", *how) for how in (
        [ALONE, berth], [PRELOAD, berth], [PRELOAD, berth, "--when-full", "wait=1"]))
    promise(plain["15"]["statuses"] == {"200": 15}, plain)
    promise(plain["again"]["statuses"] == {"200": 15}, plain)
    promise(plain["40"]["statuses"].get("200", 0) >= 20, plain)
    return {
        "program": "nginx, 2 workers, a proxy before a server that takes 0.3 s; 80 held",
        "calls": "connect",
        "alone": say(alone),
        "preload": f"{say(plain)}. With --when-full wait=1: {say(waiting)}",
        "why not": "Twenty ports are twenty requests at once. A worker that waits for a port "
                   "answers nobody meanwhile, and closes none of its connections.",
    }


def run_bpf(berth):
    found = drive_in_namespace("nginx", BPF, berth)
    promise(found["15"]["statuses"] == {"200": 15}, found)
    # Ports are found at random here, the last one perhaps not.
    promise(found["40"]["statuses"].get("200", 0) >= 18, found)
    promise(found["again"]["statuses"] == {"200": 15}, found)
    return say(found)
