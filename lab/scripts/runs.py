"""The arguments of scripts that run a program for several seeds and print tables of what it left."""

import argparse
import pathlib


def arguments(program):
    """Where `program`, data and results are, which seeds, and whether only to print."""
    parser = argparse.ArgumentParser()
    for name in (program, "data", "out"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--print", action="store_true", dest="prints")
    return parser
