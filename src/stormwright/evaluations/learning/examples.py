"""Examples to learn from: placements of problems in figures, and how much worse each is than the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.evaluations.learning.problems import drawn_problem
from stormwright.formats import read_json, write_json
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.schedulers.learned import cheap_rules
from stormwright.schedulers.portfolio.evaluation import PlacementJudge
from stormwright.schedulers.portfolio.features import FEATURES, FeatureExtractor
from stormwright.schedulers.portfolio.members import Variants
from stormwright.schedulers.portfolio.model import digest_of
from stormwright.schedulers.toolkit.limits import with_room_for_cpu
from stormwright.schedulers.toolkit.resolve import keeping_what_runs

EXAMPLES_SCHEMA: Final = "stormwright-examples/1"

#: How much worse is as bad as any: such placements need not be told apart.
_MOST_BAD: Final = 2.0

#: Steps away from answers that are looked at besides, of each problem; and how far they go.
_STEPS, _FAR = 12, 4


@dataclass(frozen=True, eq=False)
class Group:
    """Placements of one problem.

    Parameters
    ----------
    name
        Of the problem.
    kind
        Groups of the same kind are never learned from while others of it are told: a topology that was measured.
    features
        As `FeatureExtractor.features`, shape (n, F).
    badness
        By how much each is worse than the best of them: a logarithm, at least 0, shape (n,).
    """

    name: str
    kind: str
    features: FloatArray
    badness: FloatArray

    @classmethod
    def of(cls, name: str, kind: str, features: Sequence[FloatArray], badness: Sequence[float]) -> Group:
        """With badness as it is judged: the lowest becomes 0.

        Parameters
        ----------
        name, kind, features
            As of the class.
        badness
            Of each placement, from wherever it is counted.
        """
        worse = np.array(badness) - min(badness)
        return cls(name, kind, np.array(features), np.asarray(np.round(np.minimum(worse, _MOST_BAD), 6)))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        values = {"features": self.features.tolist(), "badness": self.badness.tolist()}
        return {"name": self.name, "kind": self.kind, **values}


def drawn_examples(problems: int, seed: int) -> Iterator[Group]:
    """Placements of problems drawn by chance, by what is predicted of them.

    Parameters
    ----------
    problems
        How many.
    seed
        Of the random numbers; with it goes each problem, whatever their number.
    """
    for number in range(problems):
        rng = np.random.default_rng([seed, number])
        name = f"drawn-{seed}-{number}"
        if (found := predicted_examples(drawn_problem(rng, name), rng)) is not None:
            yield found


def predicted_examples(problem: Problem, rng: np.random.Generator, kind: str = "") -> Group | None:
    """Placements of a problem by what is predicted of them: answers of cheap rules, and some steps away from them.

    Parameters
    ----------
    problem
        With a measured load.
    rng
        Draws the steps.
    kind
        As `Group` has it; by default the problem's name.

    Returns
    -------
    Group or None
        None where there are not two placements that differ.
    """
    placements = list(some_placements(problem, rng))
    if len(placements) < 2:
        return None
    judge, describing = PlacementJudge(problem, "throughput"), FeatureExtractor(problem)
    # That of the topology that comes off worst, and a tenth of their mean.
    badness = [judge.badness(slots) / 1.1 for slots in placements]
    return Group.of(problem.name, kind or problem.name, [describing.features(slots) for slots in placements], badness)


def some_placements(problem: Problem, rng: np.random.Generator) -> Iterator[IntArray]:
    """Placements of all executors that differ: what runs, answers of cheap rules as if nothing ran, steps from them.

    Parameters
    ----------
    problem
        What is placed.
    rng
        Draws the steps.
    """
    empty, known = problem.with_nothing_running(), set()
    answers = [problem.current_slot, *(answer_of(name, empty) for name in cheap_rules(problem.num_executors))]
    whole = [slots for slots in answers if slots is not None and np.all(slots != UNPLACED)]
    variants = Variants(empty, rng)
    for slots in [*whole, *_away(whole, variants, rng)]:
        if (key := slots.tobytes()) not in known:
            known.add(key)
            yield slots


def answer_of(name: str, problem: Problem) -> IntArray | None:
    """What a rule answers, with as much CPU as it takes; None where it fails."""
    try:
        return keeping_what_runs(name).schedule(with_room_for_cpu(problem)).slot_of_executor
    except StormwrightError:
        return None


def _away(placements: Sequence[IntArray], variants: Variants, rng: np.random.Generator) -> Iterator[IntArray]:
    for _ in range(_STEPS if placements else 0):
        slots = placements[int(rng.integers(len(placements)))]
        for _ in range(int(rng.integers(1, _FAR + 1))):
            slots = next(variants.of(slots, 1), slots)
        yield slots


# Files ---------------------------------------------------------------------------------------------


def examples_to_dict(groups: Iterable[Group], made: str) -> dict[str, Any]:
    """Examples as a document, with how they were made and their digest."""
    content = {
        "schema": EXAMPLES_SCHEMA,
        "made": made,
        "features": list(FEATURES),
        "groups": [group.as_dict() for group in groups],
    }
    return {**content, "digest": digest_of(content)}


def write_examples(path: Path, groups: Iterable[Group], made: str) -> None:
    """Write a file of examples, gzipped if its name ends in ``.gz``."""
    write_json(path, examples_to_dict(groups, made))


def read_examples(path: Path) -> list[Group]:
    """The examples in the file at `path`.

    Raises
    ------
    InputError
        It cannot be read, is something else, damaged, or about other features than this version has.
    """
    document = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != EXAMPLES_SCHEMA:
        raise InputError(
            str(path), [Fault(f"should be {EXAMPLES_SCHEMA}, as `stormwright learn` writes it", "$.schema")]
        )
    content = {name: value for name, value in document.items() if name != "digest"}
    if digest_of(content) != document.get("digest"):
        raise InputError(str(path), [Fault("is not what was written: its digest says something else", "$.digest")])
    if document["features"] != list(FEATURES):
        raise InputError(str(path), [Fault("has other features than this version: make it anew", "$.features")])
    return [
        Group(one["name"], one["kind"], np.array(one["features"], dtype=np.float64), np.array(one["badness"]))
        for one in document["groups"]
    ]
