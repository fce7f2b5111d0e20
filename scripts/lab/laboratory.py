"""A laboratory: hosts, the programs on them, checks of their output, and the list of scenarios."""

import gzip
import json
import os
import shutil
import signal

from lab.hosts import ROOT, Host, Lan
from lab.processes import Failed, quiet, sh


class Lab:
    def __init__(self, arguments, name, netem):
        self.program = os.path.abspath(arguments.program)
        self.prefix = f"fl{os.getpid() % 10000}{name[:2]}"
        self.folder = os.path.join(arguments.folder, name)
        self.bin = os.path.join(self.folder, "bin")
        self.netem = netem
        self.namespaces, self.processes, self.children, self.mounts = [], [], [], []
        os.makedirs(self.bin)
        os.symlink(self.program, os.path.join(self.bin, "flyswarm"))
        # `join` of this program can hold a node at a stage.
        conform = os.path.join(os.path.dirname(self.program), "flyswarm-conform")
        os.symlink(conform, os.path.join(self.bin, "flyswarm-conform"))

    def add_ns(self, name):
        sh("ip", "netns", "add", name)
        self.namespaces.append(name)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for mount in self.mounts:
            quiet("umount", mount)
        for name in self.namespaces:
            quiet("ip", "netns", "del", name)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)

    def ok(self, text):
        print(f"  ok    {text}", flush=True)

    def said(self, host, line):
        print(f"  said  {host.name}: {line}", flush=True)

    def hosts(self, names, shape=None, family=4):
        """Makes hosts on one LAN, with addresses from 10.77.0.1 or fd77::1."""
        lan = Lan(self)
        hosts = [Host(self, name) for name in names]
        for number, host in enumerate(hosts, 1):
            lan.plug(host, shape=shape)
            host.number = number
            host.address(*([f"10.77.0.{number}/24"] if family == 4 else [f"fd77::{number}/64"]))
            host.id = host.run("id")[-1]
        return lan, hosts

    def session(self, hosts, *more, name="wards", task=("flynn", "--set", "flynn.m=2048"), addresses=lambda host: "",
                timing=("start_wait_ms=8000", "linger_ms=3000")):
        """Writes a session file and gives it to every host."""
        words = ["session", "new", *task, "--name", name, "--features", "64", "--classes", "0..9"]
        for host in hosts:
            at = addresses(host)
            words += ["--peer", f"{host.name}={host.id}" + (f"@{at}" if at else "")]
        for each in timing:
            words += ["--set", f"timing.{each}"]
        hosts[0].run(*words, *more, "--out", f"{name}.toml", "--force")
        text = hosts[0].read(f"{name}.toml").decode()
        for host in hosts[1:]:
            host.write(f"{name}.toml", text)
        return text

    def deal(self, hosts, rows=600):
        """Gives every host digits: rows of all classes, the label last."""
        with gzip.open(os.path.join(ROOT, "crates", "data", "data", "digits.csv.gz"), "rt") as file:
            lines = list(file)[: rows + 60]
        for place, host in enumerate(hosts):
            host.write("my-rows.csv", "".join(lines[60 + place :: len(hosts)]))
            host.write("new-rows.csv", "".join(line.rsplit(",", 1)[0] + "\n" for line in lines[:60]))

    def join(self, hosts, *more, name="wards"):
        words = ["join", f"{name}.toml", "--data", "my-rows.csv", "--json", *more]
        program = "flyswarm-conform" if "--hold-at" in more else "flyswarm"
        return [host.start(*words, program=program) for host in hosts]

    def finish(self, hosts, *more, name="wards", doctors=()):
        """Waits for doctors that find no fault. Then all hosts join, and must end with the same model."""
        for doctor in doctors:
            doctor.end(0)
        for node in self.join(hosts, *more, name=name):
            node.end(0, 90)
        self.same(hosts, name)

    def same(self, hosts, name="wards"):
        # The files differ in the date. The digest covers only the parts that determine predictions.
        models = {json.loads(host.read(f"{name}.receipt.json"))["model"]["digest"] for host in hosts}
        if len(models) != 1:
            raise Failed(f"{len(models)} different models")
        members = {tuple(sorted(aggregate["members"])) for host in hosts
                   for aggregate in json.loads(host.read(f"{name}.receipt.json"))["aggregates"][-1:]}
        self.ok(f"{len(hosts)} equal models, counted: {', '.join(' '.join(each) for each in members)}")

    def doctor(self, host, *more, code=0, session="wards", wait=6, shell=None):
        words = ["doctor", f"{session}.toml", "--wait", str(wait), *more]
        return host.start(shell + "exec flyswarm " + " ".join(words), shell=True) if shell else host.start(*words)

    def finds(self, process, level, *parts, code=None):
        """Waits for the end of a doctor. One line must have this level and these parts. Prints the line."""
        lines = process.end(code)
        for line in lines:
            if line.startswith(level + " ") and all(part in line for part in parts):
                self.said(process.host, line)
                return line
        raise Failed(f"no line {level!r} with {parts}\n{process.story()}")


SCENARIOS = {}


def scenario(short=False, needs=()):
    def add(function):
        SCENARIOS[function.__name__.replace("_", "-")] = (function, short, needs)
        return function

    return add
