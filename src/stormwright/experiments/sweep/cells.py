"""The cells of a sweep: one decision each, told apart by all that it depends on."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from stormwright import __version__
from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.model import Problem


@dataclass(frozen=True)
class SweepProblem:
    """A problem as it travels to the workers.

    Parameters
    ----------
    name
        As the sweep's file calls it.
    digest
        Of what it says, whatever file it came in.
    content
        Gzipped JSON.
    """

    name: str
    digest: str
    content: bytes

    @staticmethod
    def of(name: str, problem: Problem) -> SweepProblem:
        """Pack a problem."""
        text = orjson.dumps(problem_to_dict(problem), option=orjson.OPT_SORT_KEYS)
        return SweepProblem(name, hashlib.sha256(text).hexdigest()[:16], gzip.compress(text, 6, mtime=0))

    def unpacked(self) -> Problem:
        """The problem."""
        return problem_from_dict(orjson.loads(gzip.decompress(self.content)), self.name)


@dataclass(frozen=True)
class Cell:
    """One decision.

    Parameters
    ----------
    problem
        Its digest.
    parameters
        As the sweep's file gives them; what it leaves out has the scheduler's default.
    seed
        None for a scheduler that draws no random numbers, and where the sweep names no seeds.
    repeat
        From 0.
    anew
        Whether what runs is placed anew.
    """

    problem: str
    scheduler: str
    parameters: Mapping[str, Any]
    seed: int | None
    repeat: int
    anew: bool = False

    @property
    def settings_text(self) -> str:
        """The parameters as JSON with sorted keys."""
        return orjson.dumps(dict(self.parameters), option=orjson.OPT_SORT_KEYS).decode()

    @property
    def parameters_text(self) -> str:
        """The same for results, ``anew`` among them where that is so."""
        told = {**self.parameters, **({"anew": True} if self.anew else {})}
        return orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()

    @cached_property
    def key(self) -> str:
        """Equal for equal decisions of the same version of this package, whichever sweep asks for them."""
        parts = [self.problem, self.scheduler, self.parameters_text, self.seed, self.repeat, __version__]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]


@dataclass(frozen=True)
class Sweep:
    """Problems by digest, and what is to be decided on them, each once; the cells of a problem stand together."""

    problems: Mapping[str, SweepProblem]
    cells: tuple[Cell, ...]
    time_limit_s: float | None = None
