"""Tests of the program `flyswarm` that the package installs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from importlib import import_module

import flyswarm
import pytest
from flyswarm import __main__ as program

COMMAND = [sys.executable, "-m", "flyswarm"]


def run(*words, folder):
    return subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True)


def test_the_version_is_that_of_the_package(tmp_path):
    found = run("--version", folder=tmp_path)
    assert (found.returncode, found.stdout) == (0, f"flyswarm {flyswarm.__version__}\n")


def test_the_program_starts_without_numpy_and_scikit_learn(tmp_path):
    missing = "import sys; sys.modules |= {'numpy': None, 'sklearn': None}"
    command = [sys.executable, "-c", f"{missing}; from flyswarm.__main__ import main; main()", "--version"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, f"flyswarm {flyswarm.__version__}\n"), found.stderr


def test_public_names_are_loaded_when_they_are_used():
    code = (
        "import sys, flyswarm; assert 'sklearn' not in sys.modules; assert 'local' in dir(flyswarm)\n"
        "from flyswarm import *; assert {*flyswarm.__all__} <= {*globals()}; flyswarm.Sesion"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = found.stderr.splitlines()[-1]
    assert last.startswith("AttributeError: module 'flyswarm' has no attribute 'Sesion'"), found.stderr


def test_output_errors_and_codes_are_those_of_the_program(tmp_path):
    made = run("id", "--new", "--json", "--key", "a.key", folder=tmp_path)
    assert made.returncode == 0 and json.loads(made.stdout)["peer_id"].startswith("12D3KooW")
    again = run("id", "--new", "--key", "a.key", folder=tmp_path)
    assert again.returncode == 2 and again.stderr.startswith("flyswarm: ") and again.stderr.count("\n") == 1
    wrong = run("joined", folder=tmp_path)
    assert wrong.returncode == 2 and "unrecognized subcommand" in wrong.stderr and wrong.stdout == ""
    assert "Usage: flyswarm" in run("--help", folder=tmp_path).stdout


def test_the_demo_runs(tmp_path):
    found = run("demo", folder=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "accuracy" in found.stdout + found.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_ctrl_c_ends_a_command(tmp_path):
    child = subprocess.Popen(
        [*COMMAND, "relay", "--key", "r.key", "--json"], cwd=tmp_path, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(30) != 1


def test_a_command_in_the_extension_is_not_kept_from_ctrl_c_by_python(monkeypatch):
    before, seen = signal.getsignal(signal.SIGINT), []

    class Extension:
        @staticmethod
        def main(words):
            seen.extend([words, signal.getsignal(signal.SIGINT)])
            return 7

    monkeypatch.setattr(program, "_flyswarm", Extension)
    monkeypatch.setattr(sys, "argv", ["anything", "demo"])
    try:
        with pytest.raises(SystemExit) as ended:
            program.main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.value.code, seen) == (7, [["flyswarm", "demo"], signal.SIG_DFL])


def test_the_script_of_the_wheel_is_this_program(request):
    text = (request.config.rootpath / "pyproject.toml").read_text("utf-8")
    module, name = tomllib.loads(text)["project"]["scripts"]["flyswarm"].split(":")
    assert getattr(import_module(module), name) is program.main
    script = shutil.which("flyswarm", path=os.path.dirname(sys.executable))
    if script is not None:
        found = subprocess.run([script, "--version"], capture_output=True, text=True)
        assert found.stdout == f"flyswarm {flyswarm.__version__}\n"
