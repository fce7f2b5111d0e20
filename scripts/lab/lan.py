"""Scenarios on one LAN."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import time

from lab.hosts import NAMES, PORT, ROOT, Lan
from lab.laboratory import scenario
from lab.processes import Failed, sh


@scenario(short=True)
def walk_through(lab):
    """Three hosts with a table of patients run the commands of the README literally."""
    with open(os.path.join(ROOT, "README.md")) as file:
        text = file.read()
    blocks = re.findall(r"^```sh (each|one|third)\n(.*?)^```$", text, re.M | re.S)
    if not blocks:
        raise Failed("README.md has no blocks `sh each`, `sh one` and `sh third`")
    _, hosts = lab.hosts(NAMES[:3])
    for host, name in zip(hosts, ("north", "south", "east")):
        for mine, theirs in (("my-rows.csv", name), ("new-rows.csv", "new")):
            with open(os.path.join(ROOT, "examples", "patients", f"{theirs}.csv")) as file:
                host.write(mine, file.read())
    one = hosts[0]
    by_id = {host.id: host for host in hosts}
    for where, block in blocks:
        if where == "each":
            # A block that ends with an ampersand continues while the next block runs.
            background = block.rstrip().endswith("&")
            started = [host.start(block.rstrip().rstrip("&"), shell=True) for host in hosts]
            if background:
                continue
            for process in started:
                process.end(0, 90)
        else:
            writer = one if where == "one" else hosts[2]
            process = writer.start(block, shell=True, stdin=subprocess.PIPE)
            if "--collect" in block:
                # Acts as the user at the terminal, who gives a name for each known id.
                def answer(process=process):
                    asked = set()
                    while len(asked) < 3:
                        line = process.wait_line("a question", lambda line: "12D3" in line and line not in asked, 40)
                        asked.add(line)
                        named = next(host.name for id, host in by_id.items() if id in line)
                        process.process.stdin.write(named + "\n")
                        process.process.stdin.flush()
                    process.process.stdin.close()

                answer()
            process.end(0, 90)
            for host in hosts:
                for name in os.listdir(writer.home):
                    if name.endswith(".toml") and host is not writer:
                        host.write(name, writer.read(name).decode())
        lab.ok(f"{where}: {' / '.join(line.strip() for line in block.strip().splitlines())}"[:160])
    lab.same(hosts)


@scenario(short=True)
def doctor_and_session(lab):
    """Five hosts find each other by mDNS: five doctors, then five nodes."""
    _, hosts = lab.hosts(NAMES)
    lab.deal(hosts)
    lab.session(hosts)
    doctors = [lab.doctor(host) for host in hosts]
    lab.finds(doctors[0], "ok", "south: ready", "known by mDNS only", "runs doctor", "round trip", code=0)
    for doctor in doctors[1:]:
        doctor.end(0)
    lab.ok("five doctors at once: exit code 0 at each")
    nodes = lab.join(hosts[1:])
    nodes[0].wait_line("listening", lambda line: '"listening"' in line)
    doctor = lab.doctor(hosts[0], wait=5)
    lab.finds(doctor, "ok", "south: ready", "runs join", code=0)
    nodes = lab.join(hosts[:1]) + nodes
    for node in nodes:
        node.end(0, 90)
    lab.same(hosts)


@scenario()
def slow_network(lab):
    """Each of five hosts has a delay of 20 ms, 1 % loss and 20 Mbit/s."""
    _, hosts = lab.hosts(NAMES, shape=(0.010, 0.005, 2.5e6))
    lab.deal(hosts)
    lab.session(hosts)
    doctors = [lab.doctor(host, wait=12) for host in hosts]
    line = lab.finds(doctors[0], "ok", "south: ready", code=0)
    for doctor in doctors[1:]:
        doctor.end(0)
    trip = float(re.search(r"round trip ([\d.]+) ms", line).group(1))
    if not 30 <= trip <= 200:
        raise Failed(f"a round trip of {trip} ms, but two cables of 10 ms each way make 40 ms")
    for node in lab.join(hosts):
        node.end(0, 120)
    lab.same(hosts)


@scenario()
def wide_area(lab):
    """XCLP on all digits at three hosts with round trips of 20 ms and five known labels of each class."""
    _, hosts = lab.hosts(NAMES[:3], shape=(0.005, 0, 125e6))
    with gzip.open(os.path.join(ROOT, "crates", "data", "data", "digits.csv.gz"), "rt") as file:
        rows = [line.strip().rsplit(",", 1) for line in file]
    left = dict.fromkeys((label for _, label in rows), 5)
    truth = {host: [] for host in hosts}
    for place, (values, label) in enumerate(rows):
        known = left[label] > 0
        left[label] -= known
        truth[hosts[place % 3]].append((values, label, known))
    for host, own in truth.items():
        lines = [f"{values},{label if known else ''}\n" for values, label, known in own]
        host.write("my-rows.csv", "".join(lines))
    lab.session(hosts, task=("xclp", "--set", "xclp.most_rows=0", "--set", "privacy.min_contributors=1"))
    for node in lab.join(hosts):
        node.end(0, 300)
    right = unknown = 0
    for host, own in truth.items():
        said = [line.split(",")[0] for line in host.read("wards.labels.csv").decode().splitlines()[1:]]
        judged = [(a, label) for a, (_, label, known) in zip(said, own, strict=True) if not known]
        right += sum(a == label for a, label in judged)
        unknown += len(judged)
    if right < 0.8 * unknown:
        raise Failed(f"{right} of {unknown} labels are right")
    stages = json.loads(hosts[0].read("wards.labels.receipt.json"))["stages"]
    took = sum(stage["seconds"] for stage in stages if stage["name"] in ("computed", "labelled"))
    lab.ok(f"{right} of {unknown} labels are right; the exchanges took {took:.1f} s")


@scenario(short=True)
def cut_off(lab):
    """A host loses its cable during the sum: the others continue. When it is back, it gets the result."""
    lan, hosts = lab.hosts(NAMES)
    lab.deal(hosts)
    lab.session(hosts, timing=("start_wait_ms=8000", "linger_ms=25000",
                                "view_timeout_ms=3000", "no_quorum_timeout_ms=60000"))
    lost = hosts[4]
    nodes = lab.join(hosts[:4]) + lab.join([lost], "--hold-at", "counts.sum")
    nodes[4].wait_line("held", lambda line: '"held"' in line)
    lan.cut(lost)
    for node in nodes[:4]:
        node.wait_line("finished", lambda line: '"finished"' in line)
    # The progress of the sum decides whether the others first notice the host's silence or the lost
    # connection.
    lab.said(hosts[0], nodes[0].wait_line("view-failed", lambda line: '"view-failed"' in line))
    lab.ok(f"four peers continue without {lost.name}, whose cable is out")
    nodes[4].stop(signal.SIGKILL)
    nodes[4].end(-9)
    lan.cut(lost, up=True)
    again = lab.join([lost])[0]
    for node in [*nodes[:4], again]:
        node.end(0, 90)
    lab.same(hosts)


@scenario()
def moved(lab):
    """The address of a host changes between sessions: mDNS finds it, and doctor reports the old address."""
    _, hosts = lab.hosts(NAMES)
    lab.deal(hosts)
    lab.session(hosts, addresses=lambda host: f"/ip4/10.77.0.{host.number}/tcp/{PORT}")
    fixed = ["--listen", f"/ip4/0.0.0.0/tcp/{PORT}"]
    lab.finish(hosts, *fixed)
    mover = hosts[1]
    mover.ip("addr", "flush", "dev", "eth0")
    mover.address("10.77.0.99/24")
    doctors = [lab.doctor(host, *fixed, wait=10) for host in hosts]
    lab.finds(doctors[0], "ok", "south: ready", "10.77.0.99", "known by mDNS and the session file")
    # There is no answer while the ARP entry of north is still valid, and no route afterwards.
    lab.finds(doctors[0], "warning", "south: ", f"/ip4/10.77.0.2/tcp/{PORT} (from the session file)")
    for doctor in doctors:
        doctor.end(0)
    lab.session(hosts, name="second", addresses=lambda host: f"/ip4/10.77.0.{host.number}/tcp/{PORT}")
    lab.finish(hosts, *fixed, name="second")


@scenario(short=True)
def two_interfaces(lab):
    """A host has a second network card in a network without other hosts."""
    lan, hosts = lab.hosts(NAMES[:3])
    nowhere = Lan(lab)
    nowhere.plug(hosts[0], "eth1")
    hosts[0].address("10.88.0.1/24", device="eth1")
    lab.deal(hosts)
    lab.session(hosts)
    doctors = [lab.doctor(host) for host in hosts]
    lab.finds(doctors[0], "ok", "listening: /ip4/10.77.0.1/")
    lab.finds(doctors[0], "ok", "listening: /ip4/10.88.0.1/")
    lab.finds(doctors[1], "ok", "north: ready", "10.77.0.1", code=0)
    for doctor in doctors:
        doctor.end(0)
    lab.finish(hosts)


@scenario(short=True, needs=("nft",))
def quic(lab):
    """Five hosts listen on TCP and QUIC, but a firewall closes every TCP port."""
    _, hosts = lab.hosts(NAMES)
    lab.deal(hosts)
    lab.session(hosts)
    both = ["--listen", f"/ip4/0.0.0.0/tcp/{PORT}", "--listen", f"/ip4/0.0.0.0/udp/{PORT}/quic-v1"]
    for host in hosts:
        host.firewall("iifname eth0 meta l4proto tcp drop")
    doctors = [lab.doctor(host, *both, wait=10) for host in hosts]
    # The port differs if south dialled, which depends on the identities.
    lab.finds(doctors[0], "ok", "south: ready at /ip4/10.77.0.2/udp/", "/quic-v1", code=0)
    lab.finish(hosts, *both, doctors=doctors[1:])


@scenario(short=True)
def ipv6_only(lab):
    """No host has an IPv4 address."""
    _, hosts = lab.hosts(NAMES[:3], family=6)
    lab.deal(hosts)
    lab.session(hosts)
    # Link-local addresses need a second for duplicate detection before multicast works.
    time.sleep(2)
    doctors = [lab.doctor(host, wait=10) for host in hosts]
    # The identities decide which peer dials, so north may know only that south connected to it.
    lab.finds(doctors[0], "ok", "south: ready", "/ip6/fd77::2/", "known by mDNS only", code=0)
    # The IPv4 port is a different one, and no host could reach it.
    if any("is refused" in line for line in doctors[0].lines + doctors[0].errors):
        raise Failed(f"a port of the other family was tried\n{doctors[0].story()}")
    lab.finish(hosts, doctors=doctors[1:])


@scenario()
def names(lab):
    """Peers have addresses with DNS names, and mDNS is off."""
    _, hosts = lab.hosts(NAMES[:3])
    lab.deal(hosts)
    for host in hosts:
        folder = f"/etc/netns/{host.ns}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/hosts", "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"10.77.0.{each.number} {each.name}.lan\n" for each in hosts))
    lab.session(hosts, addresses=lambda host: f"/dns4/{host.name}.lan/tcp/{PORT}")
    fixed = ["--no-mdns", "--listen", f"/ip4/0.0.0.0/tcp/{PORT}"]
    doctors = [lab.doctor(host, *fixed) for host in hosts]
    lab.finds(doctors[0], "ok", "south: ready", "known by the session file only", code=0)
    lab.finish(hosts, *fixed, doctors=doctors[1:])
    lab.session(hosts, name="nowhere", addresses=lambda host: f"/dns4/{host.name}.nowhere/tcp/{PORT}")
    lab.finds(lab.doctor(hosts[0], *fixed, session="nowhere"), "error", "south: ", "south.nowhere is not known to DNS", code=3)


@scenario()
def network_key(lab):
    """Peers with the same network key connect. A peer without it cannot, and doctor reports this."""
    _, hosts = lab.hosts(NAMES[:3])
    lab.deal(hosts)
    lab.session(hosts)
    hosts[0].run("id", "--new", "--network-key", "net.key")
    text = hosts[0].read("net.key").decode()
    for host in hosts[1:]:
        host.write("net.key", text)
        os.chmod(os.path.join(host.home, "net.key"), 0o600)
    key = ["--network-key", "net.key"]
    doctors = [lab.doctor(hosts[0], *key, wait=8), lab.doctor(hosts[1], *key, wait=8), lab.doctor(hosts[2], wait=8)]
    lab.finds(doctors[0], "ok", "south: ready")
    lab.finds(doctors[0], "error", "harbour: something answers", "network key", code=3)
    lab.finds(doctors[2], "error", "north: something answers", "network key", code=3)
    lab.finish(hosts, *key)


@scenario(short=True)
def faults(lab):
    """Doctor reports each of many faults."""
    _, hosts = lab.hosts(NAMES[:4])
    north, south, harbour, hill = hosts
    three = hosts[:3]
    lab.deal(three)
    lab.session(three, addresses=lambda host: f"/ip4/10.77.0.{host.number}/tcp/{PORT}")
    fixed = ["--listen", f"/ip4/0.0.0.0/tcp/{PORT}"]

    def session_of(host, *changes):
        text = host.read("wards.toml").decode()
        for old, new in changes:
            if old not in text:
                raise Failed(f"{old} is not in the session file")
            text = text.replace(old, new)
        host.write("other.toml", text)

    # No other host runs a program.
    doctor = lab.doctor(north, *fixed, wait=3)
    lab.finds(doctor, "error", "south: no program listens at", "10.77.0.2", "connection refused", code=3)
    session_of(north, (f'addresses = ["/ip4/10.77.0.2/tcp/{PORT}"]', "addresses = []"))
    lab.finds(lab.doctor(north, *fixed, session="other", wait=3), "error", "south: no contact", "mDNS did not find it", code=3)
    session_of(north, ("10.77.0.2", "10.77.0.77"))
    lab.finds(lab.doctor(north, *fixed, session="other", wait=6), "error", "south: ", "cannot be reached", code=3)

    # The hosts have different session files.
    session_of(harbour, ("gamma = 0.9", "gamma = 0.8"))
    doctors = [lab.doctor(north, *fixed), lab.doctor(south, *fixed), lab.doctor(harbour, *fixed, session="other")]
    lab.finds(doctors[0], "error", "harbour: has another session file: flynn.gamma differs", code=3)
    lab.finds(doctors[2], "error", "north: has another session file: flynn.gamma differs", code=3)

    # A roster does not have this peer: the host's own roster, then the roster of another host.
    hill.write("wards.toml", north.read("wards.toml").decode())
    lab.finds(lab.doctor(hill, wait=3), "error", "roster: 12D3", "is not in the roster of wards.toml", code=3)
    session_of(harbour, (south.id, hill.id), (f'addresses = ["/ip4/10.77.0.2/tcp/{PORT}"]', "addresses = []"))
    doctors = [lab.doctor(north, *fixed), lab.doctor(south, *fixed), lab.doctor(harbour, *fixed, session="other")]
    lab.finds(doctors[1], "error", "harbour: closes the connection", "another peer id for this machine", code=3)
    lab.finds(doctors[2], "warning", f"stranger: {south.id}", "is not in this session file", code=3)

    # The address of one peer leads to another peer.
    session_of(north, (f"/ip4/10.77.0.2/tcp/{PORT}", f"/ip4/10.77.0.3/tcp/{PORT}"))
    lab.doctor(harbour, *fixed, wait=9)
    time.sleep(2)
    lab.finds(lab.doctor(north, *fixed, session="other", wait=5), "error", f"south: another peer answers at /ip4/10.77.0.3/tcp/{PORT}", harbour.id, code=3)
    time.sleep(3)

    # The identity is in use on another machine, and on this one.
    shutil.copytree(f"{south.home}/.config", f"{hill.home}/.config", dirs_exist_ok=True)
    twin = hill.start("join", "wards.toml", "--data", f"{south.home}/my-rows.csv")
    twin.wait_line("listening", lambda line: "listening on /ip4/10." in line)
    lab.finds(lab.doctor(south, *fixed, wait=3), "error", "twice: this identity is in use at /ip4/10.77.0.4/", code=3)
    twin.stop()
    node = lab.join([south], *fixed)[0]
    node.wait_line("listening", lambda line: "listening" in line)
    lab.finds(lab.doctor(south, wait=3), "error", "twice: `flyswarm join` runs on this machine", code=3)
    node.stop()
    node.end(130)

    # These are faults of this machine.
    small = os.path.join(north.home, "small")
    os.makedirs(small)
    sh("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small)
    lab.mounts.append(small)
    lab.finds(lab.doctor(north, "--state", "small", wait=2), "error", "disk: ", "free in", "free some space", code=3)
    with open(os.path.join(small, "filler"), "wb") as file:
        try:
            file.write(b"x" * 262144)
        except OSError:
            pass
    lab.finds(lab.doctor(north, "--state", "small", wait=2), "error", "disk: ", "No space left on device", code=3)
    lab.finds(lab.doctor(north, wait=2, shell="ulimit -n 100; "), "warning", "files: only 100 files may be open", code=3)
    lab.finds(lab.doctor(north, wait=2, shell="ulimit -n 60; "), "error", "files: only 60 files may be open", code=3)
    taken = north.start(f"python3 -c 'import socket,time; s=socket.create_server((\"\", {PORT})); time.sleep(60)'", shell=True)
    time.sleep(1)
    lab.finds(lab.doctor(north, *fixed, wait=2), "error", "listen: cannot listen on", "in use", code=3)
    taken.stop(signal.SIGKILL)


@scenario(short=True, needs=("nft",))
def firewalls(lab):
    """Doctor recognises firewalls at another host and at its own host."""
    _, hosts = lab.hosts(NAMES[:3])
    north, south, harbour = hosts
    lab.session(hosts, addresses=lambda host: f"/ip4/10.77.0.{host.number}/tcp/{PORT}")
    fixed = ["--listen", f"/ip4/0.0.0.0/tcp/{PORT}"]

    south.firewall(f"tcp dport {PORT} drop")
    doctors = [lab.doctor(host, *fixed, wait=12) for host in hosts]
    lab.finds(doctors[1], "warning", f"its connection to this machine's TCP port {PORT} gets no answer in 3 s: probably a firewall")
    lab.finds(doctors[0], "warning", "south: no answer at /ip4/10.77.0.2/", "probably a firewall")
    for doctor in doctors:
        doctor.end(0)
    lab.ok("a session could start: south dials")
    south.firewall("meta l4proto tcp drop")
    doctors = [lab.doctor(host, *fixed, wait=6) for host in hosts]
    lab.finds(doctors[0], "error", "south: no answer at /ip4/10.77.0.2/", f"open TCP port {PORT}", code=3)
    south.firewall()
    harbour.firewall("udp dport 5353 drop")
    doctors = [lab.doctor(host, *fixed, wait=8) for host in hosts]
    lab.finds(doctors[0], "note", "harbour: not seen by mDNS", code=0)
    lab.finds(doctors[2], "warning", "mdns: mDNS found no peer of this session", "UDP port 5353", code=0)
