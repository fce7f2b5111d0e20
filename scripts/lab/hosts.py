"""Hosts in network namespaces, the LAN that connects them, and faults of its cables."""

import heapq
import os
import random
import select
import signal
import struct
import subprocess
import time

from lab.processes import Failed, Process, quiet, sh

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = ["north", "south", "harbour", "hill", "mill"]
PORT = 4001


# A cable with delay, loss and limited bandwidth, for kernels without netem.

def tap(name):
    import fcntl

    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22s", name.encode(), 0x1002, b""))
    return fd


def soft_cable(ends, delay, loss, rate):
    """Carries frames between two TAP devices, each way with `delay` s, loss rate `loss`, `rate` bytes/s."""
    waiting, order, free = [], 0, [0.0, 0.0]
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, to, frame = heapq.heappop(waiting)
            try:
                os.write(ends[to], frame)
            except OSError:
                pass
        timeout = max(0.0, waiting[0][0] - now) if waiting else 1.0
        for fd in select.select(ends, [], [], timeout)[0]:
            to = 1 - ends.index(fd)
            for _ in range(64):
                try:
                    frame = os.read(fd, 70000)
                except OSError:
                    break
                now = time.monotonic()
                # A queue of 0.2 s, as in a switch. A queue of seconds would defeat TCP's congestion control.
                if random.random() < loss or free[to] > now + 0.2:
                    continue
                free[to] = max(now, free[to]) + len(frame) / rate
                order += 1
                heapq.heappush(waiting, (free[to] + delay, order, to, frame))


class Lan:
    """A bridge in its own namespace, and the hosts that are plugged into it."""

    count = 0

    def __init__(self, lab):
        Lan.count += 1
        self.lab, self.ports, self.cables = lab, 0, []
        self.ns = f"{lab.prefix}sw{Lan.count}"
        lab.add_ns(self.ns)
        for words in (["link", "add", "br0", "type", "bridge", "forward_delay", "0"], ["link", "set", "br0", "up"]):
            sh("ip", "-n", self.ns, *words)
        # Snooping would need a querier. Without snooping multicast goes to every port, as on a simple switch.
        quiet("ip", "-n", self.ns, "link", "set", "br0", "type", "bridge", "mcast_snooping", "0")

    def plug(self, host, device="eth0", shape=None):
        self.ports += 1
        port = f"p{self.ports}"
        soft = shape and not self.lab.netem
        if soft:
            names = [f"{self.lab.prefix}{Lan.count}{self.ports}{end}" for end in "xy"]
            ends = [tap(name) for name in names]
            sh("ip", "link", "set", names[0], "netns", host.ns, "name", device)
            sh("ip", "link", "set", names[1], "netns", self.ns, "name", port)
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                try:
                    soft_cable(ends, *shape)
                finally:
                    os._exit(0)
            self.lab.children.append(child)
            for end in ends:
                os.close(end)
        else:
            # The device is made inside a namespace, because two labs may use the same name at once.
            sh("ip", "-n", self.ns, "link", "add", port, "type", "veth", "peer", "name", device, "netns", host.ns)
        sh("ip", "-n", self.ns, "link", "set", port, "master", "br0", "up")
        if shape and not soft:
            delay, loss, rate = shape
            netem = ["netem", "delay", f"{delay * 1000}ms", "loss", f"{loss * 100}%", "rate", f"{int(rate * 8)}bit"]
            for ns, name in ((self.ns, port), (host.ns, device)):
                sh("tc", "-n", ns, "qdisc", "add", "dev", name, "root", *netem)
        host.ports[device] = (self, port)

    def cut(self, host, device="eth0", up=False):
        sh("ip", "-n", self.ns, "link", "set", host.ports[device][1], "up" if up else "down")


class Host:
    def __init__(self, lab, name):
        self.lab, self.name, self.ports = lab, name, {}
        self.ns = f"{lab.prefix}{name}"
        self.home = os.path.join(lab.folder, name)
        os.makedirs(self.home)
        lab.add_ns(self.ns)
        sh("ip", "-n", self.ns, "link", "set", "lo", "up")

    def ip(self, *words, check=True):
        return sh("ip", "-n", self.ns, *words, check=check)

    def address(self, *addresses, device="eth0"):
        for address in addresses:
            # Duplicate detection is off, so that an IPv6 address can be used at once.
            self.ip("addr", "add", address, "dev", device, *(["nodad"] if ":" in address else []))
        self.ip("link", "set", device, "up")

    def environment(self):
        return {"HOME": self.home, "PATH": f"{self.lab.bin}:{os.environ['PATH']}", "LANG": "C.UTF-8"}

    def start(self, *words, stdin=subprocess.DEVNULL, shell=False, program="flyswarm"):
        command = ["bash", "-euo", "pipefail", "-c", words[0]] if shell else [program, *words]
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.ns, "env", "-i", *(f"{k}={v}" for k, v in self.environment().items()), *command],
            cwd=self.home, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )
        self.lab.processes.append(process)
        return Process(self, process, " ".join(words))

    def run(self, *words, code=0, stdin=None, shell=False, seconds=60):
        process = self.start(*words, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, shell=shell)
        if stdin:
            process.process.stdin.write(stdin)
            process.process.stdin.close()
        return process.end(code, seconds)

    def firewall(self, *lines):
        text = "flush ruleset\ntable inet f {\n chain i { type filter hook input priority 0;\n" + "\n".join(lines) + "\n}\n}\n"
        done = subprocess.run(["ip", "netns", "exec", self.ns, "nft", "-f", "-"], input=text, text=True, capture_output=True)
        if done.returncode:
            raise Failed(f"nft: {done.stderr}")

    def write(self, name, text):
        with open(os.path.join(self.home, name), "w") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.home, name), "rb") as file:
            return file.read()
