"""A scheduler that takes a set time and ends in a set way; of another package, as far as anyone can see."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from stormwright.model import Assignment, Problem
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.params import Params, param

NAME = "stand_in"


@dataclass(frozen=True, kw_only=True)
class StandInParams(Params):
    ms: float = param(5.0, "how long it takes", low=0)
    end: str = param("answer", "how it ends with seed 0", choices=("answer", "raise", "die", "hang"))
    placement: str = param("even", "scheduler whose placement it gives", choices=("even", "random"))
    seed: int = param(0, "of that placement")


class StandIn:
    """Answers as another scheduler does, if it answers."""

    params_type = StandInParams

    def __init__(self, params: StandInParams) -> None:
        self.params = params

    def schedule(self, problem: Problem) -> Assignment:
        ends = time.perf_counter() + self.params.ms / 1000
        seed = {"seed": self.params.seed} if self.params.placement == "random" else {}
        answer = make_scheduler(self.params.placement, **seed).schedule(problem)
        if problem.topologies[0].id == "warm-up":
            return answer
        while time.perf_counter() < ends:
            pass
        match self.params.end if self.params.seed == 0 else "answer":
            case "raise":
                raise ArithmeticError("as it was told")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                while True:
                    time.sleep(3600)
        return answer


def offer(directory: Path) -> Path:
    """Make a directory that, on ``PYTHONPATH``, offers the scheduler as another package's."""
    about = directory / f"{NAME}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[stormwright.schedulers]\n{NAME} = {__name__}:StandIn\n")
    return directory
