# SPDX-License-Identifier: Apache-2.0
"""unbound: chooses a random port for each query itself, and binds it; 99 of its 100 are held."""

import collections
import socket
import statistics

from stage import (
    ALONE, BPF, FIRST, HERE, LAST, PRELOAD, ask, dns, drive as drive_in_namespace, promise,
    wait_until_held,
)

QUERIES = 20

CONFIGURATION = f"""
server:
  interface: {HERE}
  port: 5353
  do-ip6: no
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "DIRECTORY"
  pidfile: ""
  logfile: ""
  use-syslog: no
  module-config: "iterator"
  do-not-query-localhost: no
  num-threads: 1
  outgoing-port-avoid: 0-65535
  outgoing-port-permit: {FIRST}-{LAST}
forward-zone:
  name: "."
  forward-addr: {HERE}@20053
remote-control:
  control-enable: no
"""


def drive(stage, how="plain"):
    stage.serve(dns(), 20053, socket.SOCK_DGRAM)
    file = stage.path("unbound.conf", CONFIGURATION.replace("DIRECTORY", stage.directory))
    stage.hold(socket.SOCK_DGRAM, 99)
    process = stage.start("unbound", "-d", "-c", file, port=5353,
                          counts="bind" if how == "counted" else None,
                          options=["--on-taken", "another"] if stage.way == PRELOAD else [])
    answers = [ask(5353, f"a{number}.example.org") for number in range(QUERIES)]
    if how == "plain":
        wait_until_held("udp", 99)  # unbound has closed its last one
        stage.hold_rest(socket.SOCK_DGRAM)
        return {"answers": answers, "full": [ask(5353, f"b{number}.example.org")
                                             for number in range(3)]}
    stage.stop(process)
    return {"answers": answers, "bind": stage.calls()["bind"]}


def say(plain, counted):
    failed = counted["bind"][1]
    rcodes = collections.Counter(rcode for rcode, _ in plain["answers"])
    return (f"99 held: {1 + failed / QUERIES:,.1f} bind() a query, {failed / QUERIES:,.1f} of them "
            f"fail; {', '.join(f'{count} {rcode}' for rcode, count in rcodes.items())}, "
            f"{statistics.median(ms for _, ms in plain['answers']):.1f} ms; all held: "
            f"{plain['full'][0][0]}, {statistics.median(ms for _, ms in plain['full']):,.0f} ms")


def drive_both(way, berth):
    return [drive_in_namespace("unbound", way, berth, how) for how in ("plain", "counted")]


def run(berth):
    alone, preload = (drive_both(way, berth) for way in (ALONE, PRELOAD))
    plain, counted = preload
    promise(all(rcode == "NOERROR" for rcode, _ in plain["answers"]), plain)
    # One that fails and one that does not; others are for the sockets at which it listens.
    promise(counted["bind"][1] <= QUERIES, counted)
    return {
        "program": f"unbound, outgoing-port-permit: {FIRST}-{LAST}; preload with --on-taken "
                   "another",
        "calls": "bind to a random port of its own choice, up to 10,000 times a query",
        "alone": say(*alone),
        "preload": say(*preload),
        "why not": "Ports that others take while it runs are learned within 2 s, or from eight "
                   "refusals. With every port held it tries 10,000 times still, each time with "
                   "the same answer. So it does with one port left and two queries at once. "
                   "--on-taken is the preload's alone: under --bpf bind() to a port by number is "
                   "the kernel's.",
    }


def run_bpf(berth):
    plain, counted = drive_both(BPF, berth)
    promise(all(rcode == "NOERROR" for rcode, _ in plain["answers"]), plain)
    return say(plain, counted)
