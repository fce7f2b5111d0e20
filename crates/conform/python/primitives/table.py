"""Described columns of a session file (spec, section 4.3), and checks for the whole file."""

from __future__ import annotations

import datetime
import re
import struct
import unicodedata

from . import Refused
from .crypto import le


class SessionError(Refused):
    """A session file that must be refused."""

    def __init__(self, text: str) -> None:
        super().__init__("session", text)


def need(holds: object, what: str) -> None:
    if not holds:
        raise SessionError(what)


def printable(text):
    hidden = [0xAD, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF]
    hidden += [0xFFF9, 0xFFFA, 0xFFFB]
    for character in text:
        n = ord(character)
        if unicodedata.category(character) == "Cc" or n in hidden or 0xE0000 <= n <= 0xE0FFF:
            return False
        if character.isspace() and character != " ":
            return False
    return 1 <= len(text) <= 64 and text.strip() == text


def plain_name(text):
    return re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", text) is not None


EPOCH = datetime.date(1970, 1, 1).toordinal()


class Table:
    """Described columns (section 4.3)."""

    KINDS = ("ignored", "number", "category", "ordinal", "year-month-day", "day-month-year", "month-day-year")

    def __init__(self, table):
        names = "name kind levels order fill fill_with indicator min max clip others_missing".split()
        self.columns = table["column"]
        need(all({"name", "kind"} <= set(column) <= set(names) for column in self.columns), "unknown field")
        delimiter = table.get("delimiter", "auto")
        need(delimiter in ("auto", ",", ";", "\t", "|"), "delimiter")
        self.delimiter = None if delimiter == "auto" else delimiter
        self.comma, self.missing, self.label = table.get("decimal_comma", False), table.get("missing", []), table.get("label", "")
        need(len(set(self.missing)) == len(self.missing) <= 100 and all(map(printable, self.missing)), "missing")
        need(1 <= len(self.columns) <= 2000, "columns")
        named = [column["name"] for column in self.columns] + [self.label] * bool(self.label)
        need(len(set(named)) == len(named) and all(map(printable, named)), "columns")
        self.group = table.get("group")
        need(self.group is None or printable(self.group) and self.group != self.label, "group")
        need(not any(column["name"] == self.group and column["kind"] != "ignored" for column in self.columns), "group")
        for column in self.columns:
            self.check(column)
        need(len(set(self.names())) == len(self.names()) >= 1, "features")
        need(all(len(name.encode()) <= 256 for name in self.names()), "features")

    def check(self, column):
        kind, levels, fill = column["kind"], column.get("levels"), column.get("fill")
        need(kind in ("ignored", "number", "category", "ordinal", "date"), "kind")
        need((levels is not None) == (kind in ("category", "ordinal")), "levels")
        if levels is not None:
            need(1 <= len(levels) == len(set(levels)) <= 1000 and all(map(printable, levels)), "levels")
        need("order" not in column or kind == "date", "order")
        order = column.get("order", "year-month-day")
        need(order in self.KINDS[4:], "order")
        limits = [column[end] for end in ("min", "max") if end in column]
        if kind == "date":
            column["kind"] = order
            for name in ("fill", "min", "max"):
                if name in column:
                    column[name] = float(self.days(column[name], "year-month-day"))
            limits = [column[end] for end in ("min", "max") if end in column]
        elif kind == "number":
            need(all(type(x) in (int, float) for x in limits + ([] if fill is None else [fill])), "number")
        else:
            need(not limits and not column.get("clip", False), "limits")
            need(fill is None or fill in (levels or []) or kind == "category" and fill == "", "fill")
        need(limits == sorted(limits), "limits")
        need(limits or not column.get("clip", False), "clip")
        need("fill_with" not in column or fill is None and kind != "ignored", "fill_with")
        usual = "mean" if kind in ("number", "date") else "most-frequent"
        need(column.get("fill_with", usual) == usual, "fill_with")
        filled = {"fill", "fill_with"} & set(column)
        need(filled or not column.get("indicator", False), "indicator")
        need(filled and levels is not None or not column.get("others_missing", False), "others_missing")

    @staticmethod
    def days(text, order):
        first = re.split("[T ]", text)[0]
        parts = [first[:4], first[4:6], first[6:]] if re.fullmatch("[0-9]{8}", first) and order[0] == "y" else re.split("[-/.]", first)
        need(len(parts) == 3, "date")
        if re.fullmatch("[0-9]{4}", parts[0]):
            order = "year-month-day"
        year, month, day = (parts[order.split("-").index(part)] for part in ("year", "month", "day"))
        need(re.fullmatch("[0-9]{4}", year) and all(re.fullmatch("[0-9]{1,2}", part) for part in (month, day)), "date")
        return datetime.date(int(year), int(month), int(day)).toordinal() - EPOCH

    def names(self):
        names = []
        for column in self.columns:
            name, kind = column["name"], column["kind"]
            if kind == "category":
                names += [f"{name}={level}" for level in column["levels"]]
            elif kind != "ignored":
                names.append(name)
            names += [f"{name} is missing"] * column.get("indicator", False)
        return names

    def encoded(self):
        text = lambda text: le(len(text.encode()), 2) + text.encode()
        texts = lambda texts: le(len(texts), 2) + b"".join(map(text, texts))
        number = lambda x: struct.pack("<d", x + 0.0)
        out = (self.delimiter or "\0").encode() + bytes([self.comma]) + texts(self.missing) + text(self.label)
        out += le(len(self.columns), 2)
        for column in self.columns:
            out += text(column["name"]) + bytes([self.KINDS.index(column["kind"])])
            out += texts(column["levels"]) if "levels" in column else b""
            fill = column.get("fill")
            if fill is None:
                out += b"\4" if "fill_with" in column else b"\0"
            elif isinstance(fill, str):
                out += b"\2" + text(fill) if fill else b"\3"
            else:
                out += b"\1" + number(fill)
            limits = sum(bit for bit, end in ((1, "min"), (2, "max")) if end in column) + 4 * column.get("clip", False)
            limits += 8 * column.get("others_missing", False)
            out += bytes([column.get("indicator", False), limits])
            out += b"".join(number(column[end]) for end in ("min", "max") if end in column)
        return out + (b"" if self.group is None else text(self.group))

    def pooled(self):
        """Returns the columns that all peers fill with a common value (section 15g)."""
        return [column for column in self.columns if "fill_with" in column]
