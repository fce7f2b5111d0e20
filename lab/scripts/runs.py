"""Arguments of scripts that run a program for several seeds and print tables of its results."""

import argparse
import pathlib


def arguments(program):
    """Returns a parser for the paths of `program`, data and results, the seeds, and --print."""
    parser = argparse.ArgumentParser()
    for name in (program, "data", "out"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--print", action="store_true", dest="prints")
    return parser
