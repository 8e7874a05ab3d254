"""A demonstration's result that was made up: a word count in one worker goes to two nodes."""

from __future__ import annotations

from dataclasses import replace

from stormwright.controller.reports import MoveReport
from stormwright.controller.requests import NoPlan
from stormwright.history.evaluation.comparison import compare_starts
from stormwright.model import TopologyAssignment, WorkerSlot
from stormwright.testing.word_counts import WordCount
from stormwright.workbench.demo.measure import measure
from stormwright.workbench.demo.node_use import NodeUse
from stormwright.workbench.demo.promise import promise
from stormwright.workbench.demo.result import DemoResult, Phase, TopologyResult
from stormwright.workbench.demo.settings import Criterion, MeasuredStart, MeasuredStretch
from stormwright.workbench.demo.trials import CpuCorrection, PlacementTrial
from tests.controller.builders import record

WORDS = "words-1-0"


def trees(start_s: int, end_s: int, rate: int) -> list[dict[str, object]]:
    """A record a second of a worker whose spout completes that many trees in it."""
    return [
        record(WORDS, "n0", second, trees=rate, acked=rate, start_ms=1000 * second, latency=[0, rate])
        for second in range(start_s, end_s)
    ]


def use(cores: float, sent: float, received: float, limits: bool) -> NodeUse:
    """One node, of 0.4 cores and 25 Mbit/s if it has limits."""
    if not limits:
        return NodeUse(cores, None, None, None)
    return NodeUse(cores, 0.5, sent, received, limit_cores=0.4, link_mbit_s=25.0)


def demo_result(*, rate: float | None = None, limits: bool = True) -> DemoResult:
    """With spouts that begin `rate` trees/s, as many as they can for None."""
    problem = WordCount(cores=0.4, rate_tps=1_000.0).problem()
    records = [*trees(0, 40, 9_000), *trees(60, 100, 12_000)]
    spread = {WORDS: TopologyAssignment((WorkerSlot("n1", 6700), WorkerSlot("n2", 6700)), (0,) * 6 + (1,) * 6)}
    before, after = (
        Phase(
            name,
            MeasuredStretch(start, start + 30_000, 31.0, {f"n{n}": use(*used, limits) for n, used in enumerate(nodes)}),
            placement,
            promise(problem, placement, {} if rate is None else {WORDS: rate}),
        )
        for name, start, nodes, placement in (
            ("even", 5_000.0, [(0.38, 1, 1), (0.01, 0, 0), (0.01, 0, 0)], problem.current),
            ("moon", 65_000.0, [(0.01, 0, 0), (0.3, 9, 9), (0.3, 9, 9)], spread),
        )
    )
    topology = TopologyResult(
        WORDS,
        "words",
        measure(records, WORDS, *before.stretch.span_ms),
        measure(records, WORDS, *after.stretch.span_ms),
        silence_s=20.0,
        begun=840_000,
        acked=840_000,
        failed=0,
        lost=0,
    )
    move = MoveReport(WORDS, 12, 2, 1, 0, 1.0, 5.0, 2.0, 41_000, 60_000, complete=True)
    return DemoResult(
        topologies=[topology],
        decision=NoPlan("small_gain", "because <b>"),
        moves=[move],
        problem_before=problem,
        before=before,
        after=after,
        records=records,
        start_ms=0.0,
        end_ms=100_000.0,
        network="3 network namespaces",
    )


def rolled_back() -> DemoResult:
    """The same where the placement was rolled back as worse, and its measurement has corrected costs."""
    result = demo_result()
    first, away, again = (
        MeasuredStart(trial, phase.placement, phase.stretch, {WORDS: run})
        for trial, phase, run in (
            (0, result.before, result.topologies[0].before),
            (1, result.after, replace(result.topologies[0].before, acked_tps=5_000.0)),
            (0, result.before, result.topologies[0].before),
        )
    )
    found, criterion = compare_starts([first.acked_tps], [away.acked_tps]), Criterion()
    promise, correction = result.after.promise, CpuCorrection(36, 52, 50)
    trial = PlacementTrial(1, result.decision, criterion, "rolled back", promise, 1.24, found, correction)
    return replace(
        result,
        topologies=[replace(result.topologies[0], after=again.runs[WORDS])],
        after=replace(result.before, scheduler="even, again"),
        scheduler_name="moon",
        starts=[first, replace(away, comparison=found), again],
        trials=[trial],
    )
