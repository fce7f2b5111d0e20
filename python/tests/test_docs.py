"""Tests that every public name has a docstring with an example, and that the examples are right."""

import doctest
import importlib.util
import re
import types

import flyswarm
import numpy as np
import pytest
from conftest import Swarm
from flyswarm._events import Progress

THINGS = [getattr(flyswarm, name) for name in flyswarm.__all__]
ERRORS = [thing for thing in THINGS if isinstance(thing, type) and issubclass(thing, Exception)]
PUBLIC = {thing.__name__: thing for thing in [*THINGS, Progress] if thing not in ERRORS}
# Types of methods and properties, of Python and of the extension.
METHODS = (
    types.FunctionType, classmethod, staticmethod, property,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
)  # fmt: skip
MEMBERS = {
    f"{name}.{member}": getattr(thing, member)
    for name, thing in PUBLIC.items()
    if isinstance(thing, type)
    for owner in thing.__mro__
    if owner.__module__.startswith("flyswarm")
    for member, found in vars(owner).items()
    if not member.startswith("_") and isinstance(found, METHODS)
}


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Returns the names that examples may use: all public names, `network`, `session` and `keys`."""
    made = Swarm(
        tmp_path_factory.mktemp("docs"), task="fedavg", network="logistic", features=2,
        classes=["low", "high"], data={"scaling": "none"}, rounds=5,
        fedavg={"rate": 1.0, "schedule": "constant"},
    )  # fmt: skip
    rows = np.repeat(np.array([[0, 0], [1, 1]], np.float32), 40, axis=0), ["low"] * 40 + ["high"] * 40
    results = made.join(dict.fromkeys(made.keys, rows))
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    folder = tmp_path_factory.mktemp("keys")
    keys = {name: flyswarm.Identity.new(folder / name) for name in ("north", "south", "east")}
    session = flyswarm.Session.new("wards", keys, features=4, classes=["ill", "well"])
    things = {"Progress": Progress, "network": results["peer0"].estimator, "keys": keys, "session": session}
    return vars(flyswarm) | things


@pytest.mark.parametrize("name", [*PUBLIC, *MEMBERS])
def test_everything_public_has_an_example_and_it_is_right(name, names):
    documented = PUBLIC[name] if name in PUBLIC else MEMBERS[name]
    test = doctest.DocTestParser().get_doctest(documented.__doc__ or "", dict(names), name, None, None)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_everything_public_has_a_docstring(thing):
    members = vars(thing).items() if isinstance(thing, type) else ()
    named = [(name, member) for name, member in members if not name.startswith("_")]
    methods = [name for name, member in named if callable(getattr(thing, name))]
    assert thing.__doc__
    assert [name for name in methods if not getattr(thing, name).__doc__] == []


def test_the_readme_has_at_most_40_lines_and_its_notebook_runs(tmp_path, monkeypatch, request):
    text = (request.config.rootpath / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(text.splitlines()) <= 40 and len(blocks) == 3
    for block in blocks:
        compile(block, "README.md", "exec")
    monkeypatch.chdir(tmp_path)
    if importlib.util.find_spec("matplotlib") is None:
        blocks[0] = blocks[0].replace("results[0].plot()", "")
    else:
        monkeypatch.setenv("MPLBACKEND", "agg")
    names = {}
    exec(blocks[0], names)
    results = names["results"]
    assert (results[0].estimator.predict(names["X"]) == names["y"]).mean() > 0.9
