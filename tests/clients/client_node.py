# SPDX-License-Identifier: Apache-2.0
"""node: connections and datagram sockets, more than there are ports."""

import json
import socket

from stage import ALONE, BPF, HERE, PRELOAD, check, drive as drive_in_namespace, promise

SCRIPT = """
const net = require('net'), dgram = require('dgram');
const found = {tcp: {open: 0, errors: {}}, udp: {ports: {}, errors: {}}};
const ended = (kind, held) => (error) => {
  const errors = found[kind].errors;
  errors[error.code] = (errors[error.code] || 0) + 1;
};
let left = 60;
const done = () => {
  if (--left) return;
  const udp = found.udp;
  console.log(JSON.stringify({open: found.tcp.open, tcp_errors: found.tcp.errors,
                              ports: Object.keys(udp.ports).length, udp_errors: udp.errors}));
  process.exit(0);
};
for (let i = 0; i < 30; i++) {
  const each = net.connect(20000, '127.0.0.1');
  each.on('connect', () => { found.tcp.open++; done(); });
  each.on('error', (error) => { ended('tcp')(error); done(); });
  const datagram = dgram.createSocket('udp4');
  datagram.on('error', (error) => { ended('udp')(error); done(); });
  datagram.bind(0, () => { found.udp.ports[datagram.address().port] = 1; done(); });
}
"""


def drive(stage):
    held = []
    stage.serve(held.append, 20000)
    stage.hold(socket.SOCK_STREAM, 90)
    stage.hold(socket.SOCK_DGRAM, 90)
    end = stage.run("node", "-e", SCRIPT)
    check(end.code == 0, end.errors)
    return json.loads(end.output)


def say(found):
    def errors(counts):
        return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no errors"

    return f"{found['open']} connections, {errors(found['tcp_errors'])}; {found['ports']} " \
           f"UDP ports, {errors(found['udp_errors'])}"


ALL_PORTS = {"open": 10, "tcp_errors": {"EADDRNOTAVAIL": 20}, "ports": 10,
             "udp_errors": {"EADDRINUSE": 20}}


def run(berth):
    alone, preload = (drive_in_namespace("node", way, berth) for way in (ALONE, PRELOAD))
    promise(preload == ALL_PORTS, preload)
    return {
        "program": "node, 30 connects and 30 dgram binds, 90 held",
        "calls": "connect; bind(0)",
        "alone": say(alone),
        "preload": say(preload),
        "why not": "Ten ports left are ten sockets; what is better is what a refusal costs "
                   "(python3).",
    }


def run_bpf(berth):
    found = drive_in_namespace("node", BPF, berth)
    promise(found == ALL_PORTS, found)
    return say(found)
