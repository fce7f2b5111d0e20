"""Every public thing has a docstring with an example, and the examples are right."""

import doctest

import flyswarm
import pytest

THINGS = [getattr(flyswarm, name) for name in flyswarm.__all__]
PUBLIC = [thing for thing in THINGS if not (isinstance(thing, type) and issubclass(thing, Exception))]


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_examples_are_right(thing):
    names = {name: getattr(flyswarm, name) for name in flyswarm.__all__}
    tests = doctest.DocTestFinder().find(thing, module=False, globs=names)
    results = [doctest.DocTestRunner().run(test) for test in tests]
    assert sum(r.failed for r in results) == 0
    assert sum(r.attempted for r in results) > 0


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_everything_public_has_a_docstring(thing):
    members = vars(thing).items() if isinstance(thing, type) else ()
    named = [(name, member) for name, member in members if not name.startswith("_")]
    methods = [name for name, member in named if callable(getattr(thing, name))]
    assert thing.__doc__
    assert [name for name in methods if not getattr(thing, name).__doc__] == []
