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
class SimulatedRun:
    """A run of a placement in virtual time.

    Parameters
    ----------
    seconds
        Of virtual time.
    trace, text
        What the sweep's file calls the trace of rates, and what that says; empty where rates stay as they are.
    """

    seconds: float
    trace: str = ""
    text: str = ""


@dataclass(frozen=True)
class SweepCell:
    """One decision, and where that is asked for what comes of it.

    Parameters
    ----------
    problem
        Its digest.
    parameters
        As the sweep's file gives them; what it leaves out has the scheduler's default.
    seed
        None where the sweep names no seeds, and for a scheduler that draws no random numbers if nothing is simulated.
    repeat
        From 0.
    anew
        Whether what runs is placed anew.
    simulated
        How the placement is run in virtual time; None where it is not.
    """

    problem: str
    scheduler: str
    parameters: Mapping[str, Any]
    seed: int | None
    repeat: int
    anew: bool = False
    simulated: SimulatedRun | None = None

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
        parts: list[object] = [self.problem, self.scheduler, self.parameters_text, self.seed, self.repeat, __version__]
        if self.simulated:
            parts += [self.simulated.seconds, self.simulated.text]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]


@dataclass(frozen=True)
class Sweep:
    """Problems by digest, and what is to be decided on them, each once; the cells of a problem stand together."""

    problems: Mapping[str, SweepProblem]
    cells: tuple[SweepCell, ...]
    time_limit_s: float | None = None
