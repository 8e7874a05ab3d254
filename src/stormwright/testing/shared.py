"""Properties that many test with the same examples, which are drawn once: drawing takes as long as most answers."""

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

from stormwright.model import LoadProfile, Problem, TopologyLoad
from stormwright.testing import strategies

# Equivalent problems ------------------------------------------------------------------------------
# The same problem told in another way, which has no influence: made once of each that many are tested with.


class SharedExamples:
    """What is made of a problem, kept as long as many may be tested with the same.

    Parameters
    ----------
    make
        Makes the same of the same problem and of what else it is given, which can be hashed.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._made: dict[tuple[Any, ...], tuple[Problem, Any]] = {}

    def __call__(self, problem: Problem, *more: Any) -> Any:
        key = (id(problem), *more)
        if key not in self._made:
            if len(self._made) >= MOST_SHARED:
                self._made.clear()
            self._made[key] = problem, self._make(problem, *more)
        return self._made[key][1]


@SharedExamples
def renamed(problem: Problem, ids: bool) -> Problem:
    """Under other names, and with `ids` under other ids, too."""
    return strategies.renamed(problem, ids=ids)


@SharedExamples
def with_supervisors_turned(problem: Problem) -> Problem:
    """The last supervisor first."""
    return replace(problem, supervisors=problem.supervisors[::-1])


@SharedExamples
def with_topologies_turned(problem: Problem) -> Problem:
    """The last topology first."""
    return replace(problem, topologies=problem.topologies[::-1])


@SharedExamples
def with_pairs_shuffled(problem: Problem, seed: int) -> Problem:
    """Traffic pairs in another order, by the seed."""
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
        )

    return problem.with_load(LoadProfile({t: shuffled(load) for t, load in load_profile.topologies.items()}))


# Shared -------------------------------------------------------------------------------------------

Test = Callable[..., None]
Example = dict[str, Any]

#: Of more examples, each test draws its own: a set of them would take gigabytes.
MOST_SHARED = 500

#: Sets that are drawn, at most, to find as many examples that fit as there are to be.
_SETS = 10


class _UnfitError(Exception):
    """An example that does not fit what is to be tested."""


def only_if(condition: object) -> None:
    """Like `hypothesis.assume`, for tests whose examples are shared.

    Parameters
    ----------
    condition
        Whether the example fits; if not, another is taken.
    """
    if currently_in_test_context():
        assume(condition)
    elif not condition:
        raise _UnfitError


def for_any(most: int | None = None, /, **drawn: st.SearchStrategy[Any]) -> Callable[[Test], Test]:
    """Run a test for many examples.

    Whoever inherits the test, or runs it with other parameters, is tested in this process with the same examples; so
    are all tests that are decorated with what one call gave. The next process draws others, unless the profile says
    `derandomize`. What failed before is tried first. An example that fails is looked for again by Hypothesis, from the
    seed it was drawn with, to be shrunk and kept.

    There is no deadline, since a busy machine makes any a coin toss. A test that is a method takes fewer examples where
    its object has an attribute `examples` that says so.

    Parameters
    ----------
    most
        How many; as many as the Hypothesis profile in force says, if not given.
    **drawn
        Names of parameters of the test, and what they are drawn from.
    """
    examples = _Examples(most or settings().max_examples, drawn)

    def decorate(test: Test) -> Test:
        return _Shared(test, examples).as_test()

    return decorate


class _Examples:
    """Sets of examples, each drawn when it is first asked for.

    Parameters
    ----------
    most, drawn
        As in `for_any`.
    """

    def __init__(self, most: int, drawn: dict[str, st.SearchStrategy[Any]]) -> None:
        self.drawn = drawn
        self.relaxed = settings(
            max_examples=most,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors],
        )
        #: Of the first test that is defined with them: by it they are the same each time where they are to be.
        self.name = ""
        self._sets: list[tuple[int, list[Example]]] = []

    def __iter__(self) -> Iterator[tuple[int, Example]]:
        """Examples, each with the seed it comes from."""
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

        self.relaxed(seed(number)(given(**self.drawn)(keep)))()
        return found


class _Shared:
    """A property and the examples that it is tried with.

    Parameters
    ----------
    test
        What is to hold; examples come by name.
    examples
        Of this and perhaps of other tests.
    """

    def __init__(self, test: Test, examples: _Examples) -> None:
        self._test, self._examples = test, examples
        self._drawn, self._relaxed = examples.drawn, examples.relaxed
        examples.name = examples.name or test.__qualname__

    def as_test(self) -> Test:
        """The test, as pytest is to find it."""
        by_itself = self._relaxed(given(**self._drawn)(self._test))
        again = settings(self._relaxed, phases=[Phase.explicit, Phase.reuse])(given(**self._drawn)(self._test))

        @pytest.mark.hypothesis
        @wraps(self._test)
        def tried(*args: Any, **kwargs: Any) -> None:
            if self._relaxed.max_examples > MOST_SHARED:
                by_itself(*args, **kwargs)
                return
            with suppress(SkipTest):  # nothing failed before
                again(*args, **kwargs)
            most = self._of(args)
            left = most
            for number, example in self._examples:
                left -= self._try(number, example, *args, **kwargs)
                if not left:
                    return
            if left == most:
                by_itself(*args, **kwargs)  # it knows how to say that none fits

        whole = inspect.signature(self._test)
        kept = [each for name, each in whole.parameters.items() if name not in self._drawn]
        tried.__signature__ = whole.replace(parameters=kept)
        found: Test = tried
        return found

    def _of(self, args: tuple[Any, ...]) -> int:
        """How many examples are tried."""
        own = getattr(args[0], "examples", None) if args else None
        return min(self._relaxed.max_examples, own or self._relaxed.max_examples)

    def _try(self, number: int, example: Example, *args: Any, **kwargs: Any) -> bool:
        """Whether an example fits; raises as the test does where it fails."""
        try:
            self._test(*args, **kwargs, **example)
        except _UnfitError:
            return False
        except Exception as error:
            # Of Hypothesis's decorators `seed` is the inner one: it would take the database of failures away.
            self._relaxed(seed(number)(given(**self._drawn)(self._test)))(*args, **kwargs)
            error.add_note(f"Not with an example of its own; with one that others were tested with before: {example}")
            raise
        return True
