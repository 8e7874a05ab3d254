"""Property tests that share examples, as generating them takes as long as most answers."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from random import getrandbits
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, currently_in_test_context, given, seed, settings
from hypothesis import strategies as st

from stormwright.model import Problem, TopologyLoad
from stormwright.testing import strategies

Test = Callable[..., None]
Example = dict[str, Any]

#: Larger sets are not shared, as they would take gigabytes.
MAX_SHARED = 500

#: Maximum sets to generate until enough examples fit.
_SETS = 10


class SharedExamples:
    """Cache of values derived from a problem, for tests that share it.

    Parameters
    ----------
    make
        Deterministic function of a problem and other hashable arguments.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._made: dict[tuple[Any, ...], tuple[Problem, Any]] = {}

    def __call__(self, problem: Problem, *more: Any) -> Any:
        key = (id(problem), *more)
        if key not in self._made:
            if len(self._made) >= MAX_SHARED:
                self._made.clear()
            self._made[key] = problem, self._make(problem, *more)
        return self._made[key][1]


@SharedExamples
def renamed(problem: Problem, ids: bool) -> Problem:
    """Return the problem with other names, and with `ids` other ids, too."""
    return strategies.renamed(problem, ids=ids)


@SharedExamples
def with_supervisors_turned(problem: Problem) -> Problem:
    """Return the problem with supervisors in reverse order."""
    return replace(problem, supervisors=problem.supervisors[::-1])


@SharedExamples
def with_topologies_turned(problem: Problem) -> Problem:
    """Return the problem with topologies in reverse order."""
    return replace(problem, topologies=problem.topologies[::-1])


@SharedExamples
def with_pairs_shuffled(problem: Problem, seed: int) -> Problem:
    """Return the problem with traffic pairs in another order, by the seed."""
    load_profile = problem.load
    assert load_profile is not None
    rng = np.random.default_rng(seed)

    def shuffled(load: TopologyLoad) -> TopologyLoad:
        order = rng.permutation(len(load.pair_tps))
        return replace(
            load,
            pair_source=load.pair_source[order],
            pair_target=load.pair_target[order],
            pair_tps=load.pair_tps[order],
            pair_bytes_per_s=None if load.pair_bytes_per_s is None else load.pair_bytes_per_s[order],
        )

    topologies = {t: shuffled(load) for t, load in load_profile.topologies.items()}
    return problem.with_load(replace(load_profile, topologies=topologies))


class _UnfitError(Exception):
    """The example does not fit the test."""


def only_if(condition: object) -> None:
    """Skip an example, like `hypothesis.assume`, for tests with shared examples.

    Parameters
    ----------
    condition
        Whether the example fits; if not, another is used.
    """
    if currently_in_test_context():
        assume(condition)
    elif not condition:
        raise _UnfitError


def for_any(most: int | None = None, /, **strategies: st.SearchStrategy[Any]) -> Callable[[Test], Test]:
    """Decorate a test to run for many examples.

    Inherited and parametrised tests use the same examples in this process, as do all tests with the same decorator
    object. The next process generates others, unless the profile sets `derandomize`. Earlier failures are tried first.
    A failing example is reproduced by Hypothesis from its seed, to be shrunk and stored.

    There is no deadline, since on a busy machine any would fail at random. A test method uses fewer examples if its
    object has an attribute `examples`.

    Parameters
    ----------
    most
        Number of examples; by default that of the active Hypothesis profile.
    **strategies
        Names of parameters of the test, and their strategies.
    """
    examples = _Examples(most or settings().max_examples, strategies)

    def decorate(test: Test) -> Test:
        return _SharedProperty(test, examples).as_test()

    return decorate


class _Examples:
    """Sets of examples, generated on demand.

    Parameters
    ----------
    most, strategies
        Number of examples of each set, and strategies by parameter of the test.
    """

    def __init__(self, most: int, strategies: dict[str, st.SearchStrategy[Any]]) -> None:
        self.strategies = strategies
        self.relaxed = settings(
            max_examples=most,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors],
        )
        #: Of the first test that is defined with them: by it they are the same each time where they are to be.
        self.name = ""
        self._sets: list[tuple[int, list[Example]]] = []

    def __iter__(self) -> Iterator[tuple[int, Example]]:
        """Yield examples with their seeds."""
        for turn in range(_SETS):
            if turn == len(self._sets):
                number = zlib.crc32(f"{self.name} {turn}".encode())
                number = number if self.relaxed.derandomize else getrandbits(64)
                self._sets.append((number, self._draw(number)))
            number, examples = self._sets[turn]
            for example in examples:
                yield number, example

    def _draw(self, number: int) -> list[Example]:
        found: list[Example] = []

        def keep(**example: Any) -> None:
            found.append(example)

        self.relaxed(seed(number)(given(**self.strategies)(keep)))()
        return found


class _SharedProperty:
    """A property and its examples.

    Parameters
    ----------
    test
        The property; examples are passed by name.
    examples
        Examples of this and possibly other tests.
    """

    def __init__(self, test: Test, examples: _Examples) -> None:
        self._test, self._examples = test, examples
        self._strategies, self._relaxed = examples.strategies, examples.relaxed
        examples.name = examples.name or test.__qualname__

    def as_test(self) -> Test:
        """Return the test for pytest."""
        complete = self._relaxed(given(**self._strategies)(self._test))
        again = settings(self._relaxed, phases=[Phase.explicit, Phase.reuse])(given(**self._strategies)(self._test))

        @pytest.mark.hypothesis
        @wraps(self._test)
        def tried(*args: Any, **kwargs: Any) -> None:
            if self._relaxed.max_examples > MAX_SHARED:
                complete(*args, **kwargs)
                return
            with suppress(SkipTest):  # no earlier failure
                again(*args, **kwargs)
            most = self._of(args)
            left = most
            for number, example in self._examples:
                left -= self._try(number, example, *args, **kwargs)
                if not left:
                    return
            if left == most:
                complete(*args, **kwargs)  # it reports that none fits

        whole = inspect.signature(self._test)
        parameters = [each for name, each in whole.parameters.items() if name not in self._strategies]
        tried.__signature__ = whole.replace(parameters=parameters)
        found: Test = tried
        return found

    def _of(self, args: tuple[Any, ...]) -> int:
        """Return the number of examples."""
        own = getattr(args[0], "examples", None) if args else None
        return min(self._relaxed.max_examples, own or self._relaxed.max_examples)

    def _try(self, number: int, example: Example, *args: Any, **kwargs: Any) -> bool:
        """Return whether an example fits; raise the test's exception if it fails."""
        try:
            self._test(*args, **kwargs, **example)
        except _UnfitError:
            return False
        except Exception as error:
            # Of Hypothesis's decorators `seed` is the inner one: it would take the database of failures away.
            self._relaxed(seed(number)(given(**self._strategies)(self._test)))(*args, **kwargs)
            error.add_note(f"Not with an example of its own; with one that others were tested with before: {example}")
            raise
        return True
