"""How long a service takes for a whole plan, from the problem to the page that shows it; and what is proven of it.

    python -m benchmarks.service.plans [--sizes 1000,100000] [--plans 3] [--reads 50] [--seed 1]

Problems are those of prediction/rates_scale.py: topologies of about 100 executors, 20 a node, that `even` has placed,
under a load that was measured. The service's desk is asked for a plan as `stormwright plan` asks, and decides as
`stormwright serve` does where nobody says anything else: the problem under its load, the search, the moves in their
order, what is predicted before and after, what it relies on, the gap, and all of it kept on disk. Then the plan is
read: as JSON, and as the page that shows it. Each size has a process of its own, on one core.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import httpx
import numpy as np

from benchmarks.kit.results import write_results
from benchmarks.prediction.rates_scale import _problem as placed_by_even
from stormwright.cli.triggers import by_goal
from stormwright.client.shapes import PlanRequest
from stormwright.defaults import DEFAULT_SCHEDULER, REPAIR_SCHEDULER
from stormwright.model import Problem
from stormwright.optimize.precompile import ready_rates
from stormwright.plans.plan import Plan
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
from stormwright.service.dashboard.over_file import app_of
from stormwright.service.dashboard.site import Site
from stormwright.service.dashboard.sources import Sources
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.plan_service import PlanMakers, PlanService
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import FILE, State

#: Code that the page measures.
MEASURES = (
    "src/stormwright/service/plans",
    "src/stormwright/controller/planning",
)

#: Executors → seconds that a whole plan may take.
MAX_S = {1_000: 1.0, 100_000: 15.0}
MAX_READ_S = 0.2


@dataclass(frozen=True)
class Measured:
    """What one size took: seconds of every plan, whole and of CPU; and of every read."""

    topologies: int
    executors: int
    seconds: tuple[float, ...]
    cpu_s: tuple[float, ...]
    json_s: tuple[float, ...]
    page_s: tuple[float, ...]
    page_bytes: int
    json_bytes: int
    plan: dict[str, object]
    peak_gb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,100000", help="executors")
    parser.add_argument("--plans", type=int, default=3, help="one after the other; the median counts")
    parser.add_argument("--reads", type=int, default=50, help="of the page and of the JSON each")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows, details = [], {}
    for size in map(int, options.sizes.split(",")):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            measured = pool.apply(measure, (size, options.plans, options.reads, options.seed))
        label = f"{measured.executors:,} executors of {measured.topologies:,} topologies"
        details[label] = asdict(measured)
        new = _rows(label, measured, size)
        rows += new
        for row in new:
            print(*row, sep=" | ", flush=True)
    write_results("service-plans", "A plan of the service, whole", rows, {"measured": details})


def _rows(label: str, it: Measured, size: int) -> list[tuple[str, str, str]]:
    wanted = f"≤ {MAX_S[size]:g} s" if size in MAX_S else ""
    plan, p99 = it.plan, {what: float(np.quantile(of, 0.99)) for what, of in (("page", it.page_s), ("JSON", it.json_s))}
    gap = "none proven" if plan["gap_percent"] is None else f"{plan['gap_percent']:.1f} %"
    size_of = {"page": it.page_bytes, "JSON": it.json_bytes}
    return [
        (f"{label}: a plan, whole", wanted, f"{median(it.seconds):.2f} s ({median(it.cpu_s):.2f} CPU s)"),
        (f"{label}: its gap to what no placement is better than", "told", gap),
        (f"{label}: what it does", "", f"{plan['topologies']} topologies in {plan['steps']} steps; {plan['gain']}"),
        *(
            (
                f"{label}: p99 of reading its {what}, {size_of[what] / 1e6:.1f} MB",
                f"≤ {MAX_READ_S * 1000:.0f} ms",
                f"{seconds * 1000:.0f} ms",
            )
            for what, seconds in p99.items()
        ),
        (f"{label}: peak memory", "", f"{it.peak_gb:.2f} GB"),
    ]


def measure(executors: int, plans: int, reads: int, seed: int) -> Measured:
    """What plans of a problem take, one after the other, and reading the last."""
    ready_rates()
    problem = placed_by_even(executors, None, seed)
    load = problem.load
    assert load is not None

    def now() -> Problem:
        """As a service puts it together for each plan: what runs, under the load of now."""
        return problem.with_load(load)

    with tempfile.TemporaryDirectory() as directory:
        state = State(Path(directory) / FILE)
        kept, journal = PlanStore(state), Journal(state)
        makers = PlanMakers(
            "throughput", by_goal(DEFAULT_SCHEDULER, (), None), scheduler_keeping_running(REPAIR_SCHEDULER)
        )
        plan_service = PlanService(kept, journal, Guard(state, kept, journal), now, makers)
        took = [_planned(plan_service) for _ in range(plans)]
        plan = took[-1][0]
        sources = Sources(now, lambda: None, lambda: 4.0, dict, plan_service)
        with DashboardState(sources) as known:
            page_s, page = _page(Site(known), f"/plans/{plan.id}", reads)
        json_s, document = _timed(lambda: plan_service.plan(plan.id).model_dump_json().encode(), reads)
        plan_service.close()
        state.close()
    told = plan.model_dump(mode="json", exclude={"moved", "made", "left"})
    return Measured(
        topologies=len(problem.topologies),
        executors=problem.num_executors,
        seconds=tuple(seconds for _, seconds, _ in took),
        cpu_s=tuple(cpu_s for _, _, cpu_s in took),
        json_s=json_s,
        page_s=page_s,
        page_bytes=len(page),
        json_bytes=len(document),
        plan=told,
        peak_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    )


def _planned(plan_service: PlanService) -> tuple[Plan, float, float]:
    """A plan that moves whatever gains anything, and seconds that it took, whole and of CPU."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    plan = plan_service.request(PlanRequest(reason="how long it takes", by="benchmark", least_gain_percent=0.0))
    while plan.state == "planning":
        time.sleep(0.02)
        plan = plan_service.plan(plan.id)
    assert plan.steps, plan.why
    return plan, time.perf_counter() - begin, time.process_time() - begin_cpu


def _page(site: Site, path: str, reads: int) -> tuple[tuple[float, ...], bytes]:
    """Seconds of each read of a page, and its bytes."""
    transport = httpx.ASGITransport(app_of(site))

    async def read() -> bytes:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            answer = await client.get(path, headers={"accept": "text/html"})
            assert answer.status_code == 200, answer.text
            return answer.content

    return _timed(lambda: asyncio.run(read()), reads)


def _timed(read: Callable[[], bytes], reads: int) -> tuple[tuple[float, ...], bytes]:
    seconds, found = [], read()  # what a service does once in its life is not measured
    for _ in range(reads):
        begin = time.perf_counter()
        found = read()
        seconds.append(time.perf_counter() - begin)
    return tuple(seconds), found


if __name__ == "__main__":
    main()
