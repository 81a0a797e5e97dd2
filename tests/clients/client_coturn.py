# SPDX-License-Identifier: Apache-2.0
"""coturn: the server tries one port after another itself; the sockets of its test client connect()
unbound."""

import re
import socket

from stage import ALONE, BPF, FIRST, HERE, LAST, PRELOAD, drive as drive_in_namespace, promise

SERVER = ["-n", "--no-cli", "--no-tls", "--no-dtls", "--no-auth", "--allow-loopback-peers",
          "--log-file=stdout", "--simple-log", "-L", HERE, "-p", "3478", "-m", "1",
          f"--min-port={FIRST}", f"--max-port={LAST}"]
# Four clients, three messages each, to one another.
CLIENT = ["-e", HERE, "-m", "4", "-n", "3", "-c", "-y", "-v", HERE]


def drive(stage):
    # Of the ports left twelve are even, as the server's for a client must be; the clients hold six.
    stage.hold(socket.SOCK_DGRAM, 76)
    stage.start("turnserver", *SERVER, f"--db={stage.path('db')}",
                f"--pidfile={stage.path('pid')}", port=3478)
    end = stage.run("timeout", "10", "turnutils_uclient", *CLIENT, options=["--rest", "10000"])
    received = re.findall(r"tot_recv_msgs=(\d+)", end.output)
    return {"code": end.code, "received": int(received[-1]) if received else 0,
            "437": end.count("error 437")}


def say(found):
    return f"exit {found['code']}, {found['received']} of 12 messages, {found['437']}× error 437"


def run(berth):
    alone, preload = (drive_in_namespace("coturn", way, berth) for way in (ALONE, PRELOAD))
    promise(preload == {"code": 0, "received": 12, "437": 0}, preload)
    return {
        "program": "coturn, turnserver and turnutils_uclient with 4 clients, 76 held; --rest 10000 "
                   "for the client",
        "calls": "turnserver: bind to ports of its own choice; uclient: connect (UDP)",
        "alone": say(alone),
        "preload": say(preload),
        "why not": "The server must have the port that it names, and tries others itself: it "
                   "only works as before. The client closes a first socket while the server keeps "
                   "its allocation; a later one with the same port is answered 437, and the client "
                   "repeats that, often for ever. Alone that is a matter of luck: exit 124 is one "
                   "that was ended after 10 s.",
    }


def run_bpf(berth):
    found = drive_in_namespace("coturn", BPF, berth)
    promise(found == {"code": 0, "received": 12, "437": 0}, found)
    return say(found)
