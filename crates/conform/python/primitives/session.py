"""The session file, its id, committee and plan (spec, sections 4 to 4.2 and 15), and trees (section 9)."""

from __future__ import annotations

import datetime
import functools
import math
import re
import struct
import tomllib
import unicodedata
from typing import NamedTuple

from . import Refused
from .crypto import le, read_peer_id, tagged
from .glm import Glm
from .summary import Summary
from .table import SessionError, Table, need, plain_name, printable
from .xclp import Plan

ADDRESS = "/[!-~]{0,255}"
BOOLEAN = {
    "balance", "check_columns", "decimal_comma", "densify", "few_rows", "flip", "indicator", "large_owner", "learn_all",
    "others_missing", "pairwise", "open_distances", "robust", "site_effects",
}


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def check_booleans(part, name=""):
    """Checks that exactly the fields in `BOOLEAN` are true or false."""
    if isinstance(part, dict):
        for inner, value in part.items():
            check_booleans(value, inner)
    elif isinstance(part, list):
        for value in part:
            check_booleans(value)
    else:
        # `clip` is a boolean in a described column, and a number in the section [fedavg].
        need(name == "clip" or isinstance(part, bool) == (name in BOOLEAN), f"{name} is of another type")


def noise_of_members(epsilon, delta, rounds, longest, parties):
    """Returns the budget in units of 10^-12 and the variance of a member's noise (15f, Private rounds)."""
    root = -math.log(delta)
    root = epsilon / (math.sqrt(root + epsilon) + math.sqrt(root))
    rho = math.floor(root * root * (1 - 1e-9) * 1e12)
    return rho, max(1024, -(-((2 * longest) ** 2 * rounds * 10**12) // (2 * rho * parties)))


class Setting:
    """Settings of a sketch without its seed: `data` and `flynn`, or one `tune.setting` (section 4)."""

    def __init__(self, table, features, classes):
        need(set(table) <= {"scaling", "densify", "m", "s", "rho"}, "unknown field")
        need({"m", "s", "rho"} <= set(table), "missing field")
        self.densify = table.get("densify", False)
        self.scaling, self.range, self.bins = table.get("scaling", "none"), None, 1
        if isinstance(self.scaling, dict):
            [(self.scaling, inner)] = self.scaling.items()
            if self.scaling == "soft-bins":
                self.bins = inner["bins"]
                need(2 <= self.bins <= 64 and features * self.bins <= 2**20, "bins")
            else:
                self.range = [f32(inner[end]) for end in ("lo", "hi")]
                need(self.range[0] < self.range[1], "range")
        self.width = features * self.bins
        self.dimension = 1 << (self.width - 1).bit_length() if self.densify else self.width

        def size(value, letter, base, least):
            if isinstance(value, int):
                return value
            need(re.fullmatch(r"[0-9.]{1,32}" + letter, value), "size")
            return max(int(float(value[:-1]) * float(base)), least)

        self.m = size(table["m"], "d", self.dimension, 0)
        need(1 <= self.m <= 2**28 // classes, "m")
        self.s = size(table["s"], "d", self.dimension, 2)
        need(2 <= self.s <= self.dimension, "s")
        self.rho = size(table["rho"], "m", self.m, 2)
        need(1 <= self.rho <= self.m, "rho")

    def encoded_scaling(self):
        encoded = self.scaling.encode() + b"".join(struct.pack("<d", end + 0.0) for end in self.range or [])
        return encoded + (le(self.bins, 8) if self.scaling == "soft-bins" else b"")

    def encoded(self):
        sizes = b"".join(le(size, 8) for size in (self.m, self.s, self.rho))
        return Session.item(self.encoded_scaling()) + bytes([self.densify]) + sizes


class Slot(NamedTuple):
    name: str
    word: int  # bytes
    words: int

    @property
    def length(self):
        return self.word * self.words


class Session:
    # Minimum, maximum and default of each field.
    TIMING = {
        "start_wait_ms": (0, 3_600_000, 10_000),
        "proposal_backoff_ms": (1, 3_600_000, 2_000),
        "view_timeout_ms": (3_000, 3_600_000, 10_000),
        "no_quorum_timeout_ms": (1, 86_400_000, 60_000),
        "compute_ms": (1, 86_400_000, 600_000),
        "linger_ms": (0, 86_400_000, 30_000),
        "regroup_interval_ms": (0, 86_400_000, 30_000),
        "max_views": (24, 1_000, 40),
    }

    def __init__(self, text):
        try:
            file = tomllib.loads(text)
            check_booleans({name: part for name, part in file.items() if name != "columns"})
        except tomllib.TOMLDecodeError as error:
            raise SessionError(str(error)) from error
        fields = {
            "": "name run_id created series columns table relays task select min_peers data flynn evaluate tune xclp sketch fedavg "
            "pseudo_labels summary glm custom privacy committee timing limits roster",
            "committee": "faults members",
            "series": "number parent",
            "table": "delimiter decimal_comma missing label group column",
            "data": "features columns classes scaling densify check_columns",
            "flynn": "m s rho gamma score",
            "evaluate": "held_out most learn_all positive",
            "tune": "folds setting",
            "xclp": "bits k alpha steps power balance hamming cheaters compute few_rows large_owner most_rows most_sessions memory_mb",
            "sketch": "hash rows range open_distances pairwise active chosen temperature",
            "pseudo_labels": "after refresh",
            "fedavg": "network hidden filters image rounds epochs steps batch rate schedule momentum weight_decay proximal clip members "
            "weighting held_out patience flip shift initial range tensors",
            "custom": "name bytes",
            "privacy": "min_contributors collusion_threshold epsilon delta top mode colluders unit group_rows",
            "timing": " ".join(name for name in self.TIMING if name != "max_views"),
            "limits": "max_views",
        }
        optional = " ".join(fields[table] for table in ("xclp", "sketch", "fedavg", "privacy", "timing", "limits"))
        optional += " table relays delimiter decimal_comma missing label group features series columns check_columns committee faults members select"
        optional += " flynn evaluate held_out most learn_all positive xclp sketch fedavg pseudo_labels after refresh summary glm custom bytes classes min_peers"
        optional += " tune privacy timing limits scaling densify score folds"
        for table, names in fields.items():
            found = file.get(table, {}) if table else file
            need(set(found) <= set(names.split()), "unknown field")
            present = not table or table in file
            need(not present or set(names.split()) - set(found) <= set(optional.split()), "missing field")
        self.task = file["task"]
        allowed = {"tune"} if "tune" in file else {"flynn"} if "flynn" in file else {"xclp", "sketch", "fedavg", "fedavg-xclp", "summary", "glm", "custom"}
        need(self.task in allowed and ("flynn" in file) == (self.task in ("flynn", "tune")), "task")
        both = self.task == "fedavg-xclp"
        need(both or self.task == "xclp" or "xclp" not in file, "xclp")
        need(both or self.task == "fedavg" or "fedavg" not in file, "fedavg")
        need(both or "pseudo_labels" not in file, "pseudo_labels")
        need(("custom" in file) == (self.task == "custom"), "custom")
        need(self.task == "summary" or "summary" not in file, "summary")
        need(self.task == "glm" or "glm" not in file, "glm")
        self.custom = file.get("custom", {"name": "a"})
        need(re.fullmatch("[a-z0-9-]{1,64}", self.custom["name"], re.ASCII), "custom")
        need(re.fullmatch("([0-9a-f]{2}){0,65536}", self.custom.get("bytes", ""), re.ASCII), "custom")
        self.selects = "select" in file
        need(not self.selects or file["select"] == "sketch" and self.task == "flynn", "select")
        self.sketches = self.task == "sketch" or self.selects
        need(self.sketches or "sketch" not in file, "sketch")
        need(plain_name(file["name"]), "name")
        need(re.fullmatch("[0-9a-f]{32}", file["run_id"], re.ASCII), "run_id")
        created = file["created"]
        utc = isinstance(created, datetime.datetime) and created.tzinfo == datetime.timezone.utc
        need(utc and created.microsecond == 0 and created.timestamp() >= 0, "created")
        series = file.get("series", {"number": 2, "parent": "00" * 32})
        need(2 <= series["number"] <= 1_000_000, "series")
        need(re.fullmatch("[0-9a-f]{64}", series["parent"], re.ASCII), "series")
        entries = sorted((read_peer_id(entry["peer_id"]), entry["name"], self.checked_addresses(entry)) for entry in file["roster"])
        self.roster, self.names, self.addresses = ([entry[part] for entry in entries] for part in range(3))
        names, self.name = self.names, file["name"]
        relays = file.get("relays", [])
        need(len(relays) <= 8 and all(re.fullmatch(ADDRESS + "/p2p/[0-9A-Za-z]+", relay) for relay in relays), "relays")
        p = len(entries)
        need(3 <= p <= 1024 and len(set(self.roster)) == len(set(names)) == p and all(map(plain_name, names)), "roster")
        smallest = max(p // 2 + 1, 3)
        self.min_peers = file.get("min_peers", smallest)
        need(smallest <= self.min_peers <= p, "min_peers")

        data = file["data"]
        self.table = Table(file["table"]) if "table" in file else None
        need(self.table is None or not {"features", "columns"} & set(data) and "columns" not in file, "table")
        self.columns = self.table.names() if self.table else data.get("columns", [])
        self.features, self.classes = len(self.columns) if self.table else data.get("features", 0), data.get("classes", [])
        need(len(self.columns) in (0, self.features) and len(set(self.columns)) == len(self.columns), "columns")
        need(self.table is not None or all(map(printable, self.columns)), "column")
        need(1 <= self.features <= 65_536, "features")
        never = self.task in ("sketch", "summary", "glm")
        classless = (never or self.task == "custom") and not self.classes
        need((classless or not never and 2 <= len(self.classes) <= 1000) and len(set(self.classes)) == len(self.classes), "classes")
        need(all(map(printable, self.classes)), "class")
        flynn = file.get("flynn", {"m": 1, "s": 2, "rho": 1, "gamma": 0})
        xclp = file.get("xclp", {})
        self.bits, self.k = xclp.get("bits", 4096), xclp.get("k", 10)
        self.alpha, self.power = float(xclp.get("alpha", 0.99)), xclp.get("power", 3 if both else 1)
        need(0.01 <= self.alpha <= 0.999 and 1 <= self.power <= 3, "xclp")
        self.balance = xclp.get("balance", False)
        need(isinstance(self.balance, bool) and not (both and self.balance), "xclp.balance")
        self.hamming = xclp.get("hamming", "replicated")
        need(self.hamming in ("replicated", "ot", "phe") and not (both and self.hamming != "replicated"), "xclp.hamming")
        self.cheaters = xclp.get("cheaters", "caught")
        need(self.cheaters in ("caught", "trusted"), "xclp.cheaters")
        self.steps = xclp.get("steps", next(k for k in range(1, 1000) if self.cut_off(k) <= 2e-4))
        self.compute = xclp.get("compute", [])
        self.few_rows, self.large_owner = xclp.get("few_rows", False), xclp.get("large_owner", False)
        self.most_rows, self.most_sessions = xclp.get("most_rows", 0 if both else 500), xclp.get("most_sessions", 0)
        need(0 <= self.most_rows <= 10_000 and 0 <= self.most_sessions <= 1_000_000, "xclp")
        need(self.most_sessions in (0, *range(series["number"] if "series" in file else 1, self.most_sessions + 1)), "series")
        self.memory_mb = xclp.get("memory_mb", 1024)
        need(128 <= self.memory_mb <= 65_536, "xclp.memory_mb")
        need(64 <= self.bits <= 16_384 and self.bits & self.bits - 1 == 0 and 1 <= self.k <= 1000, "xclp")
        need(set(self.compute) <= set(names) and len(set(self.compute)) == len(self.compute) in (0, 3, 4), "compute")
        need(p <= 64 or not both and self.task not in ("xclp", "summary", "glm"), "roster")
        if both or self.task == "xclp":
            self.fits(5 * (self.k + 1))
        self.fedavg = (both or self.task == "fedavg") and self.checked_fedavg(file.get("fedavg", {}), data)
        self.after = self.refresh = None
        if both:
            found = file.get("pseudo_labels", {})
            self.after, self.refresh = found.get("after", self.fedavg["rounds"] // 2), found.get("refresh", 10)
            need(0 <= self.after < self.fedavg["rounds"] and 1 <= self.refresh <= 10_000, "pseudo_labels")
            need(self.fedavg["members"] == 1, "fedavg.members")
        sketch = file.get("sketch", {})
        self.hash, self.rows, self.span = sketch.get("hash", "srp"), sketch.get("rows", 1000), sketch.get("range", 64)
        self.open_distances, self.pairwise = sketch.get("open_distances", self.selects), sketch.get("pairwise", False)
        self.active, self.chosen = sketch.get("active", 0), sketch.get("chosen", 0)
        self.temperature = float(sketch.get("temperature", 1))
        need(2 <= self.span <= 65_536 and 1 <= self.rows <= 2**24 // self.span, "sketch")
        need(0 <= self.active <= p and 0 <= self.chosen <= p and 0.001 <= self.temperature <= 1000, "sketch")
        need(self.chosen == 0 or self.open_distances and self.active in (0, *range(self.chosen, p + 1)), "sketch")
        tables = [(data, "scaling"), (data, "densify"), (flynn, "m"), (flynn, "s"), (flynn, "rho")]
        own = Setting({key: table[key] for table, key in tables if key in table}, self.features, max(len(self.classes), 1))
        self.__dict__.update(own.__dict__)
        if self.sketches:
            planes = self.span.bit_length() - 1
            dimension = self.features * (own.bins if own.scaling == "soft-bins" else 1)
            srp = self.hash == "srp" and 1 << planes == self.span and self.rows * planes * dimension <= 2**28
            need(srp or self.hash == "minhash" and own.scaling == "none", "sketch")
            need(not self.densify or self.selects, "densify")
        private = "epsilon" in file.get("privacy", {})
        self.check_columns = data.get("check_columns", not private and self.task not in ("summary", "glm", "custom"))
        need(not self.check_columns or not private and self.task not in ("summary", "glm", "custom"), "check_columns")
        need(not (self.table and self.table.pooled()) or not private and self.task != "custom", "fill_with")
        limits = self.limits = file.get("columns", {})
        need(set(limits) <= set(self.columns), "columns")
        for bounds in limits.values():
            need(bounds and set(bounds) <= {"min", "max"} and all(map(math.isfinite, bounds.values())), "columns")
            need(bounds.get("min", -math.inf) <= bounds.get("max", math.inf), "columns")
        tune = file.get("tune")
        self.folds = tune.get("folds", 3) if tune else 0
        self.settings = [own]
        if tune:
            need(2 <= self.folds <= 20 and 1 <= len(tune["setting"]) <= 64, "tune")
            self.settings += [Setting(each, self.features, len(self.classes)) for each in tune["setting"]]
            need(self.folds * len(self.classes) * sum(each.m for each in self.settings) <= 2**28, "counts")
        evaluate = file.get("evaluate")
        need(evaluate is None or self.task == "flynn" and not private and not self.selects, "evaluate")
        self.evaluates, evaluate = evaluate is not None, evaluate or {}
        self.held_out, self.most = evaluate.get("held_out", 20), evaluate.get("most", 1000)
        self.learn_all = evaluate.get("learn_all", True)
        need(1 <= self.held_out <= 50 and 1 <= self.most <= 1_000_000, "evaluate")
        self.positive = evaluate.get("positive")
        need(self.positive is None or len(self.classes) == 2 and self.positive in self.classes, "evaluate.positive")
        self.gamma = float(flynn["gamma"]) + 0.0
        need(0 <= self.gamma < 1, "gamma")
        self.score = flynn.get("score", "decay")
        need(self.score in ("decay", "balanced-decay", "log", "balanced-log"), "score")
        privacy = file.get("privacy", {})
        self.min_contributors = privacy.get("min_contributors", 3)
        need(1 <= self.min_contributors <= p, "min_contributors")
        need(not self.selects or self.chosen >= max(3, self.min_contributors) and not self.pairwise, "select")
        self.collusion_threshold = float(privacy.get("collusion_threshold", 1 / 3))
        need(0.01 <= self.collusion_threshold <= 0.99, "collusion_threshold")
        epsilon = privacy.get("epsilon")
        need(epsilon is not None or not {"delta", "top", "mode", "colluders", "unit", "group_rows"} & set(privacy), "privacy")
        self.mode = None
        noise = []
        if epsilon is not None:
            sketches, of_members = self.task == "sketch", self.task == "fedavg"
            self.mode = privacy.get("mode", "member" if of_members else "per-party")
            modes = ("member",) if of_members else ("per-party", "parallel", "central")[: 2 if sketches else 3]
            need(self.mode in modes, "mode")
            need(sketches or of_members or self.task == "flynn" and not self.selects, "epsilon")
            need(own.scaling in ("none", "unit-norm", "range"), "scaling")
            millionths = round(epsilon * 1e6)
            need(1_000 <= millionths <= 100_000_000 and millionths / 1e6 == epsilon, "epsilon")
            need(("top" in privacy) != (sketches or of_members), "top")
            need(sketches or of_members or 1 <= privacy["top"] <= own.m * len(self.classes), "top")
            need(("delta" in privacy) == of_members, "delta")
            noise = [("privacy.epsilon", le(millionths, 8))]
            if of_members:
                delta = round(privacy["delta"] * 1e12)
                need(1 <= delta <= 10**10 and delta / 1e12 == privacy["delta"], "delta")
                noise.append(("privacy.delta", le(delta, 8)))
            noise += [] if sketches or of_members else [("privacy.top", le(privacy["top"], 8))]
            noise.append(("privacy.mode", self.mode.encode()))
            if self.mode in ("central", "member"):
                colluders = privacy.get("colluders", 1)
                need(1 <= colluders < min(self.min_peers, 3, min(p, 15) // 2 + 1), "colluders")
                noise.append(("privacy.colluders", le(colluders, 8)))
            need(self.mode in ("central", "member") or "colluders" not in privacy, "colluders")
            unit = privacy.get("unit", "row")
            need(unit in ("row", "group") and ("group_rows" in privacy) == (unit == "group"), "unit")
            if unit == "group":
                need(self.mode != "member" and self.table and self.table.group, "unit")
                need(1 <= privacy["group_rows"] <= min(1000, 2**41 // (p * max(privacy.get("top", 0), 1))), "group_rows")
                noise.append(("privacy.group_rows", le(privacy["group_rows"], 8)))
            if of_members:
                rounds, clip, share = self.fedavg["rounds"], self.fedavg["clip"], 2**27 // self.min_peers
                need(self.fedavg["weighting"] == "equal" and self.fedavg["held_out"] == 0, "fedavg")
                need(0.001 <= clip <= 4, "fedavg.clip")
                averaged = [each["range"] for each in self.fedavg["tensors"] if each["rule"] == "average"]
                need(all(span == 16 for span in [self.fedavg["range"], *averaged]), "fedavg.range")
                parties = self.min_peers - privacy.get("colluders", 1)
                rho, variance = noise_of_members(epsilon, privacy["delta"], rounds, math.floor(clip * share), parties)
                need(variance <= 2**54 and 10 * math.sqrt(variance * p) <= (8 - clip) * 2**27, "epsilon")
        need(not self.pairwise or p * (self.rows * self.span + (2 if self.mode else 0)) <= 2**28, "sketch")
        voting = file.get("committee", {})
        named = voting.get("members", [])
        usual = "crash" if (len(named) or min(p, 15)) < 4 else "byzantine"
        self.faults = voting.get("faults", usual)
        need(self.faults in ("crash", "byzantine"), "faults")
        need(set(named) <= set(names) and len(set(named)) == len(named), "committee")
        need(not named or 3 <= len(named) <= 15, "committee")
        need(self.faults == "crash" or (len(named) or min(p, 15)) >= 4, "faults")
        given = file.get("timing", {}) | file.get("limits", {})
        timing = self.timing = {name: given.get(name, default) for name, (*_, default) in self.TIMING.items()}
        for name, (low, high, _) in self.TIMING.items():
            need(low <= timing[name] <= high, name)

        self.summary = self.glm = None
        if self.task == "summary":
            need(own.scaling == "none" and not self.densify, "scaling")
            self.summary = Summary(file.get("summary", {}), self.table, self.columns, names, self.min_contributors)
        if self.task == "glm":
            need(own.scaling == "none" and not self.densify, "scaling")
            self.glm = Glm(file.get("glm", {}), self.table, self.columns, names, self.min_contributors)

        number = lambda x: struct.pack("<d", x + 0.0)
        values = [
            ("name", file["name"].encode()),
            ("run_id", bytes.fromhex(file["run_id"])),
            ("created", le(int(created.timestamp()), 8)),
            *self.only("series" in file, ("series.number", le(series["number"], 8))),
            *self.only("series" in file, ("series.parent", bytes.fromhex(series["parent"]))),
            ("task", self.task.encode()),
            *self.only(self.selects, ("select", b"sketch")),
            ("min_peers", le(self.min_peers, 8)),
            ("data.features", le(self.features, 8)),
            ("data.classes", self.list(name.encode() for name in self.classes)),
            *([("data.columns", self.list(name.encode() for name in self.columns))] if self.columns else []),
            ("data.scaling", own.encoded_scaling()),
            ("data.densify", bytes([self.densify])),
            ("data.check_columns", bytes([self.check_columns])),
            *self.only(limits, ("columns", self.list(
                self.item(name.encode())
                + b"".join(self.item(number(bounds[end]) if end in bounds else b"") for end in ("min", "max"))
                for name, bounds in sorted(limits.items(), key=lambda limit: limit[0].encode())
            ))),
            *([("table", self.table.encoded())] if self.table else []),
            *self.only(
                self.task in ("flynn", "tune"),
                ("flynn.m", le(self.m, 8)),
                ("flynn.s", le(self.s, 8)),
                ("flynn.rho", le(self.rho, 8)),
                ("flynn.gamma", number(self.gamma)),
                ("flynn.score", self.score.encode()),
            ),
            *([("tune.folds", le(self.folds, 8))] if tune else []),
            *([("tune.settings", self.list(each.encoded() for each in self.settings[1:]))] if tune else []),
            *self.only(
                self.task in ("xclp", "fedavg-xclp"),
                ("xclp.bits", le(self.bits, 8)),
                ("xclp.k", le(self.k, 8)),
                ("xclp.alpha", number(self.alpha)),
                ("xclp.steps", le(self.steps, 8)),
                ("xclp.power", le(self.power, 8)),
                ("xclp.balance", bytes([self.balance])),
                ("xclp.hamming", self.hamming.encode()),
                ("xclp.cheaters", self.cheaters.encode()),
                ("xclp.compute", " ".join(self.compute).encode()),
                ("xclp.few_rows", bytes([self.few_rows])),
                ("xclp.large_owner", bytes([self.large_owner])),
                ("xclp.most_rows", le(self.most_rows, 8)),
                ("xclp.most_sessions", le(self.most_sessions, 8)),
                ("xclp.memory_mb", le(self.memory_mb, 8)),
            ),
            *self.only(
                self.sketches,
                ("sketch.hash", self.hash.encode()),
                ("sketch.rows", le(self.rows, 8)),
                ("sketch.range", le(self.span, 8)),
                ("sketch.open_distances", bytes([self.open_distances])),
                ("sketch.pairwise", bytes([self.pairwise])),
                ("sketch.active", le(self.active, 8)),
                ("sketch.chosen", le(self.chosen, 8)),
                ("sketch.temperature", number(self.temperature)),
            ),
            *self.only(
                self.evaluates,
                ("evaluate.held_out", le(self.held_out, 8)),
                ("evaluate.most", le(self.most, 8)),
                ("evaluate.learn_all", bytes([self.learn_all])),
            ),
            *self.only(self.positive is not None, ("evaluate.positive", le(self.positive in self.classes[1:], 8))),
            *(self.fedavg_entries() if self.fedavg else ()),
            *self.only(
                self.refresh,
                ("pseudo_labels.after", le(self.after or 0, 8)),
                ("pseudo_labels.refresh", le(self.refresh or 0, 8)),
            ),
            *(self.summary.entries(number, self.list) if self.summary else ()),
            *(self.glm.entries(number, self.list) if self.glm else ()),
            *self.only(
                self.task == "custom",
                ("custom.name", self.custom["name"].encode()),
                ("custom.bytes", bytes.fromhex(self.custom.get("bytes", ""))),
            ),
            ("privacy.min_contributors", le(self.min_contributors, 8)),
            ("privacy.collusion_threshold", number(self.collusion_threshold)),
            *noise,
            *self.only(self.faults != usual, ("committee.faults", self.faults.encode())),
            *self.only(named, ("committee.members", self.list(name.encode() for name in sorted(named, key=str.encode)))),
            *((f"{'limits' if name == 'max_views' else 'timing'}.{name}", le(value, 8)) for name, value in timing.items()),
            ("roster.peer_id", self.list(self.roster)),
            ("roster.name", self.list(name.encode() for name in names)),
        ]
        entries = [(name, self.item(name.encode()) + self.item(value)) for name, value in values]
        self.id = tagged("session", *(entry for _, entry in entries))
        self.fields = [[name, tagged("session field", entry)[:8].hex()] for name, entry in entries]
        voters = [peer for peer, name in enumerate(names) if not named or name in named]
        ranked = sorted((tagged("council", self.id, self.roster[peer]), peer) for peer in voters)
        self.committee = [peer for _, peer in ranked][:15]
        n, deviating = len(self.committee), (len(self.committee) - 1) // 3
        self.quorum = n // 2 + 1 if self.faults == "crash" else -(-(n + deviating + 1) // 2)

    @staticmethod
    def checked_addresses(entry):
        """Returns the addresses of a peer of the roster, after a check."""
        need(set(entry) <= {"name", "peer_id", "addresses"}, "unknown field")
        addresses = entry.get("addresses", [])
        need(len(addresses) <= 16 and all(re.fullmatch(ADDRESS, address) for address in addresses), "addresses")
        named = [address.rsplit("/p2p/", 1)[1] for address in addresses if "/p2p/" in address]
        need(set(named) <= {entry["peer_id"]}, "the address of another peer")
        return addresses

    def cut_off(self, steps):
        """Returns the part of the series that is missing after `steps` steps."""
        s = math.sqrt(1 - self.alpha**2)
        q = (1 - s) / self.alpha
        return 2 * q ** (steps + 1) / ((1 - q) * s) * (1 - self.alpha)

    def xclp_plan(self, n):
        return Plan(n, len(self.classes), self.bits, self.k, self.alpha, self.steps, self.power, self.balance)

    def fits(self, n):
        """Checks that a computation with n points is possible (section 15e)."""
        plan = self.xclp_plan(n)
        need(plan.fits, "range")
        need(1 <= self.steps <= 1000, "steps")
        need(plan.tolerance(self.cut_off(self.steps)) <= 1 / 32, "tolerance")

    @staticmethod
    def only(condition, *values):
        return values if condition else ()

    @staticmethod
    def item(data):
        return le(len(data), 8) + data

    @classmethod
    def list(cls, items):
        items = list(items)
        return le(len(items), 8) + b"".join(map(cls.item, items))

    @functools.cached_property
    def plan(self):
        """Slots of the session: name, bytes of a word, and number of words (sections 15 to 15g)."""
        coin, *others = self.plan_of_task()
        pooled = self.table.pooled() if self.table else []
        words = sum(len(column.get("levels", range(2))) for column in pooled)
        pooled = self.only(pooled, ("values", 4, len(pooled)), ("fills", 64, words))
        return [Slot(*slot) for slot in (coin, *pooled, *others)]

    def column_words(self, squares):
        """Returns the number of words of `moments`, including typical rows if columns are compared."""
        if self.check_columns:
            return 2 * (1 + 2 * self.features)
        return 1 + self.features * (2 if squares else 1)

    def plan_of_task(self):
        classes = len(self.classes)
        if self.summary:
            return self.summary.plan(len(self.roster))
        if self.glm:
            return self.glm.plan(len(self.roster))
        if self.task == "xclp":
            plan = [("coin", 4, 0), ("rows", 4, len(self.roster) + classes)]
            if self.scaling in ("center", "standard", "soft-bins"):
                plan.append(("moments", 64, self.features * (1 if self.scaling == "center" else 2) + 1))
            return [*plan, ("computed", 4, 9 * len(self.roster)), ("labelled", 4, 1)]
        if self.fedavg:
            out = self.fedavg["held_out"] > 0
            plan = [("coin", 4, 0), ("holders", 4, 1 + classes + out * classes), ("rows", 4, 1)]
            if self.check_columns or self.scaling in ("center", "standard", "soft-bins"):
                plan.append(("moments", 64, self.column_words(self.scaling != "center")))
            rounds = self.fedavg["rounds"]
            predicted = classes**2 + 30 + (4 if classes == 2 else 0)
            means = max(self.fedavg_weights() + 4, 4 * predicted if self.fedavg["patience"] else 0)
            length = means + 4 + 4 * rounds
            peers, number = len(self.roster), 0
            if self.mode:
                words = self.fedavg_weights() + 4
                return [plan[0], plan[2], *((f"round-{r + 1}", 4, words) for r in range(rounds))]
            for r in range(rounds):
                if self.refresh and r >= self.after and (r - self.after) % self.refresh == 0:
                    number += 1
                    parts = {"points": peers + classes, "computed": 9 * peers, "labelled": 1, "counts": classes}
                    plan += [(f"{part}-{number}", 4, words) for part, words in parts.items()]
                plan.append((f"round-{r + 1}", 4, length))
            if self.fedavg["network"] == "own":
                return plan
            return [*plan, ("scores", 4, 5), *self.only(out, ("predictions", 8, predicted))]
        words = self.rows * self.span
        if self.mode is not None and self.task == "sketch":
            plan = [("coin", 4, 0), ("sketch", 4, words + 2)]
            plan += self.only(self.open_distances, ("scores", 4, len(self.roster)))
            plan += self.only(self.pairwise, ("pairwise", 4, len(self.roster) * (words + 2)))
            return [*plan, *self.only(self.chosen > 0, ("draw", 4, 8))]
        if self.mode is not None:
            return [("coin", 4, 0), ("counts", 4, classes * self.m)]
        plan = [("coin", 4, 0), ("present", 4, 1) if self.selects else ("holders", 4, 1 + classes + self.evaluates * (classes + 1))]
        scalings = {each.scaling for each in self.settings}
        if self.check_columns or scalings & {"center", "standard", "soft-bins"}:
            plan.append(("moments", 64, self.column_words(scalings & {"standard", "soft-bins"})))
        if self.sketches:
            plan.append(("sketch", 4, words + 1))
            plan += self.only(self.open_distances, ("scores", 4, len(self.roster)))
            plan += self.only(self.pairwise, ("pairwise", 4, len(self.roster) * words))
            plan += self.only(self.chosen > 0, ("draw", 4, 8))
            return plan + ([("holders", 4, 1 + classes), ("counts", 4, classes * self.m)] if self.selects else [])
        if self.evaluates:
            figures = 3 * classes**2 + 30 + (4 if classes == 2 else 0) + 4 * classes
            plan += [("learnt", 4, classes * self.m), ("calibration", 8, 33), ("scores", 8, figures)]
        if self.task == "flynn":
            return [*plan, ("counts", 4, classes * self.m)]
        counts = self.folds * classes * sum(each.m for each in self.settings)
        return [*plan, ("counts", 4, counts), ("scores", 4, classes * (1 + 23 * len(self.settings)))]

    def checked_fedavg(self, table, data):
        """Returns the section [fedavg] with its defaults, after checks (section 15f)."""
        own = {
            "network": "logistic", "hidden": [], "filters": [], "image": [], "rounds": 20, "epochs": 1, "steps": 0,
            "batch": 32, "rate": 0.05, "schedule": "cosine", "momentum": 0.9, "weight_decay": 1e-4, "proximal": 0.0,
            "clip": 0.0, "members": 1.0, "weighting": "rows", "held_out": 0, "flip": False, "shift": 0,
            "initial": None, "patience": 0, "range": 16.0, "tensors": [],
        }
        network = table.get("network", "logistic")
        own |= {"mlp": {"hidden": [128]}, "cnn": {"hidden": [128], "filters": [16, 32, 32]}}.get(network, {})
        own |= table
        ranges = {
            "rounds": (1, 10_000), "epochs": (1, 1000), "steps": (0, 1_000_000), "batch": (1, 65_536), "rate": (5e-324, 10),
            "momentum": (0, 0.999), "weight_decay": (0, 1), "proximal": (0, 1000), "clip": (0, 1e6),
            "members": (0.001, 1), "held_out": (0, 50), "shift": (0, 64),
            "patience": (0, 10_000),
        }
        need(all(lo <= own[name] <= hi for name, (lo, hi) in ranges.items()), "fedavg")
        need(own["patience"] == 0 or own["held_out"] > 0, "fedavg.patience")
        need(own["initial"] is None or re.fullmatch("[0-9a-f]{64}", own["initial"]) and self.task == "fedavg", "fedavg.initial")
        need(own["schedule"] in ("constant", "cosine") and own["weighting"] in ("rows", "equal"), "fedavg")
        need(all(size >= 1 for name in ("hidden", "filters", "image") for size in own[name]), "fedavg")
        hidden, filters, image = len(own["hidden"]), len(own["filters"]), len(own["image"])
        shapes = {"logistic": hidden == filters == 0, "mlp": 1 <= hidden <= 8 and filters == 0, "cnn": (hidden, filters, image) == (1, 3, 3)}
        shapes["own"] = hidden == filters == 0
        need(shapes.get(network, False) and image in (0, 3), "network")
        self.check_tensors(own)
        need(image or not own["flip"] and own["shift"] == 0, "image")
        if image:
            channels, height, width = own["image"]
            need(channels * height * width == self.features, "image")
            need(own["shift"] < min(height, width) and (network != "cnn" or min(height, width) >= 8), "image")
        return own

    def check_tensors(self, own):
        """Checks the range of weights and the tensors of a model, and gives each tensor its range."""
        power = lambda number: math.frexp(number)[0] == 0.5 and -20 <= math.frexp(number)[1] - 1 <= 40
        need(power(own["range"]), "fedavg.range")
        if own["network"] != "own":
            return need(not own["tensors"], "fedavg.tensors")
        need(own["initial"] and own["held_out"] == 0 and not own["flip"] and own["shift"] == 0, "fedavg")
        need(self.task == "fedavg", "fedavg.network")
        need(1 <= len(own["tensors"]) <= 4096, "fedavg.tensors")
        names, tensors, averaged, others = set(), [], 0, 0
        sizes = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
        for given in own["tensors"]:
            need(set(given) <= {"name", "dtype", "shape", "rule", "range"}, "tensor")
            name, dtype, shape, rule = (given[field] for field in ("name", "dtype", "shape", "rule"))
            need(1 <= len(name.encode()) <= 256 and not any(unicodedata.category(c) == "Cc" for c in name), "tensor")
            need(name not in names and name != "__metadata__" and dtype in sizes, "tensor")
            need(len(shape) <= 8 and all(type(side) is int and 1 <= side < 2**32 for side in shape), "tensor")
            need(rule in ("average", "keep-own", "first") and (rule, dtype) != ("average", "BOOL"), "tensor")
            names.add(name)
            span = float(given.get("range", own["range"])) if rule == "average" else 0.0
            need(rule != "average" or power(span), "tensor")
            count = math.prod(shape)
            averaged, others = averaged + count * (rule == "average"), others + count * sizes[dtype] * (rule != "average")
            tensors.append({"name": name, "dtype": dtype, "shape": shape, "rule": rule, "range": span})
        need(1 <= averaged <= 2**24 and others <= 2**26, "fedavg.tensors")
        own["tensors"] = tensors

    def fedavg_shapes(self):
        """Returns (outputs, inputs) of each matrix of the network, first to last."""
        own, classes = self.fedavg, len(self.classes)
        widths = [self.features, *own["hidden"], classes]
        if own["network"] != "cnn":
            return list(zip(widths[1:], widths))
        (channels, height, width), filters = own["image"], own["filters"]
        area = (height // 8) * (width // 8)
        convolutions = list(zip(filters, [9 * c for c in (channels, *filters)]))
        return [*convolutions, (own["hidden"][0], filters[2] * area), (classes, own["hidden"][0])]

    def fedavg_weights(self):
        if self.fedavg["network"] == "own":
            return sum(math.prod(each["shape"]) for each in self.fedavg["tensors"] if each["rule"] == "average")
        return sum(outputs * (inputs + 1) for outputs, inputs in self.fedavg_shapes())

    def fedavg_entries(self):
        own = self.fedavg
        entry = lambda name, value: (f"fedavg.{name}", value)
        yield entry("network", own["network"].encode())
        for name in ("hidden", "filters", "image"):
            yield entry(name, self.list(le(size, 8) for size in own[name]))
        for name in ("rounds", "epochs", "steps", "batch"):
            yield entry(name, le(own[name], 8))
        yield entry("schedule", own["schedule"].encode())
        for name in ("rate", "momentum", "weight_decay", "proximal", "clip", "members"):
            yield entry(name, struct.pack("<d", own[name]))
        yield entry("weighting", own["weighting"].encode())
        yield entry("held_out", le(own["held_out"], 8))
        yield entry("flip", bytes([own["flip"]]))
        yield entry("shift", le(own["shift"], 8))
        yield entry("patience", le(own["patience"], 8))
        if own["initial"]:
            yield entry("initial", bytes.fromhex(own["initial"]))
        if own["range"] != 16:
            yield entry("range", struct.pack("<d", own["range"]))
        if own["tensors"]:
            yield entry("tensors", self.list(map(self.tensor_entry, own["tensors"])))

    def tensor_entry(self, tensor):
        """Returns the canonical value of one tensor (section 4.1)."""
        parts = [
            tensor["name"].encode(),
            tensor["dtype"].encode(),
            self.list(le(side, 8) for side in tensor["shape"]),
            tensor["rule"].encode(),
            struct.pack("<d", tensor["range"]),
        ]
        return b"".join(le(len(part), 8) + part for part in parts)

    def dealers(self, slot, members):
        return [peer for peer in self.committee if peer in members]

    def committee_keys(self):
        return [self.roster[peer] for peer in self.committee]

    def enough(self, peers):
        """Returns whether there are `min_peers` peers and a quorum of the committee (section 8)."""
        return len(peers) >= self.min_peers and len(set(peers) & set(self.committee)) >= self.quorum


def parse_session(data, kind=Session):
    """Reads a session from the bytes of its file. `kind` is the class of the session."""
    need(len(data) <= 1 << 20, "the file is above 1 MiB")
    try:
        return kind(data.decode())
    except Refused as error:
        raise SessionError(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, struct.error) as error:
        raise SessionError(f"a field is missing or of another type: {error!r}") from None
