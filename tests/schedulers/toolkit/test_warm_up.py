"""What compiles has compiled before its time is taken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stormwright.schedulers.toolkit.traits import warm_up
from tests.case_files import small_cases

#: Counts the types that the loops have been compiled for: after warming up, and after real problems.
CHECK = """
import sys
from pathlib import Path
from stormwright.formats import read_problem
from stormwright.schedulers import make_scheduler, scheduler_names
from stormwright.optimize.construction import greedy
from stormwright.schedulers.toolkit.traits import warm_up

def compiled():
    return {name: len(loop.signatures) for name, loop in vars(greedy).items() if hasattr(loop, "signatures")}

schedulers = [make_scheduler(name) for name in ("annealing", "binpack", "online", "metis", "spread")]
for scheduler in schedulers:
    warm_up(scheduler)
after_warming_up = compiled()
for path in sys.argv[1:]:
    for scheduler in schedulers:
        scheduler.schedule(read_problem(Path(path)))
assert any(after_warming_up.values())
assert compiled() == after_warming_up, (after_warming_up, compiled())
"""


@pytest.mark.slow
def test_real_problems_compile_nothing_more():
    cases = [str(path) for path in small_cases()[::4]]
    assert cases
    subprocess.run([sys.executable, "-c", CHECK, *cases], check=True)


def test_warm_up_ignores_scheduler_failure():
    class Failing:
        def schedule(self, problem):
            raise ZeroDivisionError("a bug")

    warm_up(Failing())
