"""When workers are as warm as others were."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stormwright.model import WorkerSlot
from stormwright.workbench.demo.measure import compiler_share, measure, ran_s, wait_until_as_warm
from tests.controller.builders import record


def ran(node: str, second: int, *, pid: int = 1, compiling: float = 0.0, **more):
    """A record of a worker that uses half a core, with a part of it for its compilers."""
    made = record("t", node, second, start_ms=second * 1000, **more)
    made["worker"] |= {"pid": pid}
    threads = {"messaging_ns": 0, "gc_ns": 0, "compiler_ns": int(compiling * 5e8), "other_ns": 0}
    return made | {"process_cpu_ns": 5e8, "threads": threads}


SLOTS = {"t": (WorkerSlot("n0", 6700), WorkerSlot("n1", 6700))}


def test_a_worker_runs_from_its_first_record_on():
    records = [ran("n0", second) for second in range(2, 20)] + [ran("n1", second) for second in range(5, 20)]
    assert ran_s(records, SLOTS, 20_000) == pytest.approx(15)
    restarted = [*records, ran("n0", 18, pid=2)]
    assert ran_s(restarted, SLOTS, 20_000) == pytest.approx(2)
    assert ran_s(records, {"t": (*SLOTS["t"], WorkerSlot("n2", 6700))}, 20_000) == 0.0
    assert ran_s([], {}, 20_000) == 0.0


def test_the_part_of_compilers_is_of_the_workers_cpu():
    records = [ran("n0", second, compiling=0.2 * second) for second in range(5)]
    assert compiler_share(records) == pytest.approx(0.4)
    assert measure(records, "t", 1_000, 4_000).compiler_share == pytest.approx(0.4)
    assert compiler_share([record("t", "n0", 0)]) is None, "a probe of before does not tell"


class Hearing:
    """Time goes by while it is slept through; a worker reports every second, and compiles less and less."""

    def __init__(self, began_s: float, cool_at_s: float) -> None:
        self.now_s, self.began_s, self.cool_at_s = 100.0, began_s, cool_at_s
        self.clock = SimpleNamespace(monotonic=lambda: self.now_s, time=lambda: self.now_s, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def records(self):
        return [
            ran("n0", second, compiling=0.5 if second < self.cool_at_s else 0.1)
            for second in range(int(self.began_s), int(self.now_s))
        ]


ONE = {"t": (WorkerSlot("n0", 6700),)}


def test_warm_up_waits_until_workers_reach_same_age():
    heard = Hearing(began_s=90.0, cool_at_s=0)
    wait_until_as_warm(heard, ONE, 30.0, None, 60.0)
    assert heard.now_s == pytest.approx(120.0, abs=1.0)


def test_warm_up_waits_until_compilation_falls_to_earlier_level():
    heard = Hearing(began_s=90.0, cool_at_s=130)
    wait_until_as_warm(heard, ONE, 30.0, 0.1, 60.0)
    assert 138 <= heard.now_s <= 142, "when what is looked at back then is all cool"


def test_but_not_for_ever():
    heard = Hearing(began_s=90.0, cool_at_s=10_000)
    wait_until_as_warm(heard, ONE, 30.0, 0.1, 20.0)
    assert heard.now_s == pytest.approx(140.0, abs=2.0)
    silent = Hearing(began_s=10_000.0, cool_at_s=0)
    wait_until_as_warm(silent, ONE, 30.0, 0.1, 20.0)
    assert silent.now_s == pytest.approx(150.0, abs=2.0)
