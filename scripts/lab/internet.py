"""Scenarios of hosts behind routers and firewalls, with a public relay."""

import json
import os
import signal
import subprocess

from lab.hosts import NAMES, PORT, Host, Lan
from lab.laboratory import scenario
from lab.processes import Failed


def relays(*addresses):
    """Returns options of `session new` for a session with these relays."""
    return ["--set", f"relays={json.dumps(addresses)}"]


class Wan:
    """A public network with some hosts, and hosts behind routers that allow only outgoing connections."""

    def __init__(self, lab, public, hidden, allowed="accept", ports="random"):
        self.lab, self.lan = lab, Lan(lab)
        self.public, self.hidden = [Host(lab, name) for name in public], [Host(lab, name) for name in hidden]
        for number, host in enumerate(self.public, 1):
            self.lan.plug(host)
            host.number = number
            host.at = f"203.0.113.{number}"
            host.address(f"{host.at}/24")
        for number, host in enumerate(self.hidden, 1):
            home, router = Lan(lab), Host(lab, f"router{number}")
            self.lan.plug(router)
            home.plug(router, "eth1")
            home.plug(host)
            router.address(f"203.0.113.{100 + number}/24")
            router.address(f"10.{number}.0.1/24", device="eth1")
            host.address(f"10.{number}.0.2/24")
            host.ip("route", "add", "default", "via", f"10.{number}.0.1")
            router.run("echo 1 > /proc/sys/net/ipv4/ip_forward", shell=True)
            self.nat(router, allowed, ports)
        for host in self.public + self.hidden:
            host.id = host.run("id")[-1]

    def nat(self, router, allowed, ports):
        """Gives every connection from inside the router's address. From outside, only answers come in.

        If `ports` is "random", each connection has a new, unpredictable port. Otherwise it keeps its port."""
        text = f"""flush ruleset
table ip nat {{
 chain out {{ type nat hook postrouting priority 100; oifname eth0 masquerade {ports}; }}
}}
table inet f {{
 chain forward {{ type filter hook forward priority 0; policy drop;
  ct state established,related accept
  iifname eth1 {allowed}
 }}
 chain input {{ type filter hook input priority 0; policy drop; iifname eth1 accept; }}
}}
"""
        words = ["ip", "netns", "exec", router.ns, "nft", "-f", "-"]
        done = subprocess.run(words, input=text, text=True, capture_output=True)
        if done.returncode:
            raise Failed(f"nft: {done.stderr}")

    def relay(self, host, port, *more):
        """Starts a relay at a public host. Returns its process."""
        if not os.path.exists(os.path.join(host.home, "relay.key")):
            host.relay_id = host.run("id", "--key", "relay.key")[-1]
        words = ["relay", "--key", "relay.key", "--session", "wards.toml", "--json"]
        process = host.start(*words, "--listen", f"/ip4/0.0.0.0/tcp/{port}", *more)
        process.wait_line("listening", lambda line: '"listening"' in line)
        return process

    def at(self, host, port):
        if not os.path.exists(os.path.join(host.home, "relay.key")):
            host.relay_id = host.run("id", "--key", "relay.key")[-1]
        return f"/ip4/{host.at}/tcp/{port}/p2p/{host.relay_id}"


def circuits(relay):
    """Returns the pairs whose connections a relay has carried."""
    told = [json.loads(line) for line in relay.lines]
    return {tuple(sorted((event["from"], event["to"]))) for event in told if event["event"] == "opened"}


SLOW = ("start_wait_ms=20000", "linger_ms=3000", "no_quorum_timeout_ms=60000")


@scenario(short=True, needs=("nft",))
def behind_nat(lab):
    """Two peers behind separate NATs connect through a relay, and directly to a public peer."""
    wan = Wan(lab, ["harbour", "lighthouse"], ["north", "south"])
    harbour, lighthouse = wan.public
    hosts = [harbour, *wan.hidden]
    lab.deal(hosts)
    public = lambda host: f"/ip4/{host.at}/tcp/{PORT}" if host is harbour else ""
    fixed = {harbour.name: ["--listen", f"/ip4/0.0.0.0/tcp/{PORT}"]}
    join = lambda: [lab.join([host], "--no-mdns", *fixed.get(host.name, []))[0] for host in hosts]
    lab.session(hosts, *relays(wan.at(lighthouse, PORT)), addresses=public, timing=SLOW)
    lighthouse.write("wards.toml", harbour.read("wards.toml").decode())
    doctor = lambda host: lab.doctor(host, "--no-mdns", *fixed.get(host.name, []), wait=15)
    lab.finds(doctor(wan.hidden[0]), "warning", "relay: ", "no program listens there")
    relay = wan.relay(lighthouse, PORT)
    doctors = [doctor(host) for host in hosts]
    lab.finds(doctors[1], "ok", "relay: ", "accepts a reservation", code=0)
    lab.finds(doctors[1], "note", "south: is reached only through a relay", code=0)
    lab.finds(doctors[1], "ok", "harbour: ready", harbour.at, code=0)
    for each in doctors:
        each.end(0)
    for node in join():
        node.end(0, 90)
    lab.same(hosts)
    if circuits(relay) != {("north", "south")}:
        raise Failed(f"circuits of {circuits(relay)}\n{relay.story()}")
    lab.ok("the relay connected north and south, and no other pair")
    relay.stop()
    relay.end(0)


@scenario(short=True, needs=("nft",))
def punched_nat(lab):
    """Behind NATs that keep ports (cone NATs), two peers meet through a relay and continue without it."""
    wan = Wan(lab, ["harbour", "lighthouse"], ["north", "south"], ports="")
    harbour, lighthouse = wan.public
    hosts = [harbour, *wan.hidden]
    lab.deal(hosts)
    public = lambda host: f"/ip4/{host.at}/tcp/{PORT}" if host is harbour else ""
    fixed = {harbour.name: ["--listen", f"/ip4/0.0.0.0/tcp/{PORT}"]}
    lab.session(hosts, *relays(wan.at(lighthouse, PORT)), addresses=public, timing=SLOW)
    lighthouse.write("wards.toml", harbour.read("wards.toml").decode())
    relay = wan.relay(lighthouse, PORT)
    doctors = [lab.doctor(host, "--no-mdns", *fixed.get(host.name, []), wait=20) for host in hosts]
    lab.finds(doctors[1], "ok", "south: ready", "203.0.113.102", code=0)
    for each in doctors:
        each.end(0)
    nodes = [lab.join([host], "--no-mdns", *fixed.get(host.name, []))[0] for host in hosts]
    # All three have met, so no more traffic goes through the relay.
    for node in nodes:
        node.wait_line("the view", lambda line: '"view"' in line)
    relay.stop(signal.SIGKILL)
    relay.end(-9)
    for node in nodes:
        node.end(0, 90)
    lab.same(hosts)
    if any('"disconnected"' in line for node in nodes for line in node.lines):
        raise Failed("a connection was lost with the relay")
    lab.ok("the relay was killed after they had met, and no peer lost a connection")


@scenario(needs=("nft",))
def only_443(lab):
    """Firewalls allow only outgoing TCP port 443: three peers meet through a relay that listens there."""
    wan = Wan(lab, ["lighthouse"], NAMES[:3], allowed="tcp dport 443 accept")
    hosts = wan.hidden
    lab.deal(hosts)
    lab.session(hosts, name="alone", timing=("start_wait_ms=5000", "no_quorum_timeout_ms=2000"))
    for node in lab.join(hosts, "--no-mdns", name="alone"):
        node.end(3, 60)
    lab.ok("without a relay the session ends with code 3")
    lab.session(hosts, *relays(wan.at(wan.public[0], 443)), timing=SLOW)
    wan.public[0].write("wards.toml", hosts[0].read("wards.toml").decode())
    relay = wan.relay(wan.public[0], 443)
    lab.finish(hosts, "--no-mdns")
    if len(circuits(relay)) != 3:
        raise Failed(f"circuits of {circuits(relay)}")
    lab.ok("three pairs through port 443")


@scenario(needs=("nft",))
def relay_killed(lab):
    """The relay is killed during the sum: the view fails, and the peers meet through the next one."""
    wan = Wan(lab, ["lighthouse", "beacon"], NAMES[:3])
    hosts, (first, second) = wan.hidden, wan.public
    lab.deal(hosts)
    lab.session(hosts, *relays(wan.at(first, PORT), wan.at(second, PORT)), timing=SLOW)
    for host in wan.public:
        host.write("wards.toml", hosts[0].read("wards.toml").decode())
    relay = wan.relay(first, PORT)
    nodes = lab.join(hosts[:2], "--no-mdns") + lab.join(hosts[2:], "--no-mdns", "--hold-at", "counts.sum")
    nodes[2].wait_line("held", lambda line: '"held"' in line)
    relay.stop(signal.SIGKILL)
    relay.end(-9)
    lab.said(hosts[0], nodes[0].wait_line("disconnected", lambda line: '"disconnected"' in line))
    nodes[2].stop(signal.SIGKILL)
    nodes[2].end(-9)
    after = wan.relay(second, PORT)
    nodes[2] = lab.join(hosts[2:], "--no-mdns")[0]
    for node in nodes:
        node.end(0, 120)
    lab.same(hosts)
    if len(circuits(after)) != 3:
        raise Failed(f"circuits of the second relay: {circuits(after)}")
    lab.ok("three pairs through the second relay")


@scenario(needs=("nft",))
def relay_rate(lab):
    """Time of a sum of 16 MB through a relay, compared with direct connections."""
    wan = Wan(lab, [*NAMES[:3], "lighthouse"], [])
    *hosts, lighthouse = wan.public
    lab.deal(hosts)
    more = ["--set", "flynn.m=400000", "--no-evaluate"]

    def seconds(name, listen, *words, addresses=lambda host: ""):
        features = ["session", "new", "flynn", "--name", name, "--features", "64", "--classes", "0..9", *more]
        for host in hosts:
            at = addresses(host)
            features += ["--peer", f"{host.name}={host.id}" + (f"@{at}" if at else "")]
        hosts[0].run(*features, "--set", "timing.linger_ms=3000", *words, "--out", f"{name}.toml")
        for host in [*hosts[1:], lighthouse]:
            host.write(f"{name}.toml", hosts[0].read(f"{name}.toml").decode())
        relay = lighthouse.start("relay", "--key", "relay.key", "--session", f"{name}.toml", "--listen", f"/ip4/0.0.0.0/tcp/{PORT}")
        for node in lab.join(hosts, "--no-mdns", "--listen", listen, name=name):
            node.end(0, 120)
        relay.stop()
        relay.end(0)
        lab.same(hosts, name=name)
        stages = json.loads(hosts[0].read(f"{name}.receipt.json"))["stages"]
        return next(stage["seconds"] for stage in stages if stage["name"] == "sum")

    at = wan.at(lighthouse, PORT)
    tcp = f"/ip4/0.0.0.0/tcp/{PORT}"
    direct = seconds("direct", tcp, addresses=lambda host: f"/ip4/{host.at}/tcp/{PORT}")
    # Hole punching is not possible for a peer that does not listen on a TCP port.
    through = seconds("through", f"/ip4/0.0.0.0/udp/{PORT}/quic-v1", *relays(at))
    lab.ok(f"summing 16 MB over three peers: {direct:.2f} s directly, {through:.2f} s through a relay ({through / direct:.1f} times)")
