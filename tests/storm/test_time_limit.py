"""A scheduler that hangs, fails or ends the process blocks nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from stormwright.errors import InputError, SchedulerError
from stormwright.model import Assignment, Problem
from stormwright.storm.bridge import TimeLimited
from tests.controller.builders import problem, topology

HANGING_GUEST = """
import os, sys, threading
from stormwright.errors import SchedulerError
from stormwright.model import Problem
from stormwright.schedulers.toolkit.plugin_guard import PluginScheduler
from stormwright.schedulers.toolkit.params import NoParams
from stormwright.schedulers.toolkit.traits import Traits
from stormwright.storm.bridge import TimeLimited

class Hanging:
    may = threading.Event()
    def schedule(self, problem):
        print("of the guest")
        self.may.wait(60)

guest = PluginScheduler("slow", Hanging(), NoParams(), Traits())
for _ in range(2):
    limited = TimeLimited(guest, "slow")
    try:
        limited.schedule(Problem((), ()), 0.2)
    except SchedulerError as error:
        print(error, flush=True)
        os.system("echo of a child")
Hanging.may.set()
limited._under_way.join()
print("and later", flush=True)
"""

PROBLEM = problem([topology("a")])


class Waiting:
    """Answers once it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.calls = 0

    def schedule(self, problem: Problem) -> Assignment:
        self.calls += 1
        self.may.wait(60)
        return Assignment(problem.current_slot)


class Failing:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def schedule(self, problem: Problem) -> Assignment:
        raise self._error


@pytest.mark.long
def test_hanging_plugin_does_not_block_standard_output():
    done = subprocess.run([sys.executable, "-c", HANGING_GUEST], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["slow had no answer within 0.2 s", "of a child"] * 2 + ["and later"]
    assert done.stderr.splitlines() == ["of the guest"] * 2


def test_hanging_scheduler_is_not_called_again_until_done():
    hanging = Waiting()
    limited = TimeLimited(hanging, "slow")
    began = time.monotonic()
    with pytest.raises(SchedulerError, match=r"slow had no answer within 0.2 s"):
        limited.schedule(PROBLEM, 0.2)
    for _ in range(3):
        with pytest.raises(SchedulerError, match="slow still decides"):
            limited.schedule(PROBLEM, 60)
    assert time.monotonic() - began < 60, "only the first one waited"
    assert hanging.calls == 1
    hanging.may.set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            assert limited.schedule(PROBLEM, 5).slot_of_executor is PROBLEM.current_slot
            break
        except SchedulerError:
            time.sleep(0.01)
    assert hanging.calls == 2


@pytest.mark.parametrize("error", [TypeError("x"), SystemExit(0), KeyboardInterrupt(), GeneratorExit()])
def test_failed_scheduler_is_reported_with_name_and_error(error):
    with pytest.raises(SchedulerError, match=rf"named failed: {type(error).__name__}"):
        TimeLimited(Failing(error), "named").schedule(PROBLEM, 5)


def test_bad_input_stays_bad_input():
    with pytest.raises(InputError):
        TimeLimited(Failing(InputError("x", [])), "named").schedule(PROBLEM, 5)


def test_invalid_answer_type_is_rejected():
    class Odd:
        def schedule(self, problem: Problem) -> Assignment:
            return [1, 2]  # type: ignore[return-value]

    with pytest.raises(SchedulerError, match="returned an invalid answer: a list"):
        TimeLimited(Odd(), "named").schedule(PROBLEM)


def test_hanging_warm_up_is_abandoned():
    hanging = Waiting()
    limited = TimeLimited(hanging, "slow")
    assert not limited.warm_up(lambda scheduler: void(scheduler.schedule(PROBLEM)), 0.1)
    with pytest.raises(SchedulerError, match="slow still decides"):
        limited.schedule(PROBLEM, 5)
    hanging.may.set()


def void(_: object) -> None:
    return None
