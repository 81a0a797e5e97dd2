# SPDX-License-Identifier: Apache-2.0
"""dnsmasq: a forwarder that sends each query from a fresh UDP port; every one of them is held."""

import socket
import statistics
import time

from stage import ALONE, BPF, HERE, PRELOAD, ask, dns, drive as drive_in_namespace, promise

UDP = socket.SOCK_DGRAM


def drive(stage, how="plain"):
    stage.serve(dns(), 20053, UDP)
    process = stage.start(
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
        "--port=5353", f"--listen-address={HERE}", "--bind-interfaces", f"--server={HERE}#20053",
        "--user=root", "--pid-file=", "--cache-size=0", port=5353,
        counts="sendto,bind,connect,sendmsg" if how == "counted" else None)
    stage.hold(UDP, 95)
    found = {"few": [ask(5353, f"a{number}.example.org") for number in range(20)]}
    time.sleep(0.6)  # what it has closed rests in berth's table
    stage.hold_rest(UDP)
    found["none"] = [ask(5353, f"b{number}.example.org")
                     for number in range(1 if how == "counted" else 2)]
    if how == "counted":
        stage.stop(process)
        found["sendto"] = stage.calls()["sendto"]
    return found


def nap_ms():
    """What dnsmasq's 1001 sleeps of 10 µs take by themselves."""
    began = time.perf_counter()
    for _ in range(1001):
        time.sleep(1e-5)
    return (time.perf_counter() - began) * 1e3


def say(found, counted):
    few, none = found["few"], found["none"]
    answered = sum(rcode == "NOERROR" for rcode, _ in few)
    return (f"95 held: {answered} of {len(few)} answered, "
            f"{statistics.median(ms for _, ms in few):.1f} ms; all held: "
            f"{'/'.join(sorted({rcode for rcode, _ in none}))} after "
            f"{statistics.median(ms for _, ms in none):.0f} ms, {counted['sendto'][1]} failed "
            "system calls sendto a query, and nobody else is answered meanwhile")


def run(berth):
    alone, preload = (drive_in_namespace("dnsmasq", way, berth) for way in (ALONE, PRELOAD))
    naps = nap_ms()
    promise(all(rcode == "NOERROR" for rcode, _ in preload["few"]), preload)
    promise(all(rcode == "REFUSED" for rcode, _ in preload["none"]), preload)
    fastest, fastest_alone = (min(ms for _, ms in each["none"]) for each in (preload, alone))
    promise(fastest < fastest_alone / 2, (preload, alone))
    return {
        "program": "dnsmasq, a forwarder without cache",
        "calls": "sendto on a fresh UDP socket",
        "alone": say(alone, drive_in_namespace("dnsmasq", ALONE, berth, "counted")),
        "preload": say(preload, drive_in_namespace("dnsmasq", PRELOAD, berth, "counted")),
        "why not": "EAGAIN is what the kernel says, and dnsmasq tries 1000 times more with a "
                   f"sleep of 10 µs each, which alone take {naps:.0f} ms here. "
                   "--bpf does not help: sendto() without bind() is the kernel's own choice, made "
                   "before any hook.",
    }


def run_bpf(berth):
    found = drive_in_namespace("dnsmasq", BPF, berth)
    promise(all(rcode == "NOERROR" for rcode, _ in found["few"]), found)
    promise(all(rcode == "REFUSED" for rcode, _ in found["none"]), found)
    return say(found, drive_in_namespace("dnsmasq", BPF, berth, "counted"))
