"""Trials in the dashboard, with the results of `stormwright compare` and `stormwright whatif`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from stormwright.base.tables import TextTable
from stormwright.errors import Fault, InputError
from stormwright.model import Problem
from stormwright.model.humanize import counted
from stormwright.model.problem import assumed_text
from stormwright.predict.prediction import NOT_SUSTAINED, Interval, Prediction, TopologyPrediction
from stormwright.schedulers.toolkit.describe import describe_anyway
from stormwright.schedulers.toolkit.registry import scheduler_names
from stormwright.schedulers.toolkit.resolve import choose_schedulers
from stormwright.service.dashboard.trials import Change, TrialAnswer
from stormwright.workbench.comparison import compare, comparison_table
from stormwright.workbench.what_if import Changes, parse_executors, parse_link, parse_rate, what_if

#: Maximum number of topologies in a table.
_MAX = 50

_UNITS = (
    "Rates are those that a placement can reach, more is better: trees/s of one topology, or a factor of those of all. "
    "Cost is the weighted traffic; traffic is in tuples/s, the last column the seconds that it took."
)


class LiveTrials:
    """Schedulers and predictions of the command line, for the dashboard."""

    def schedulers(self) -> Mapping[str, str]:
        """Return a summary of each scheduler by name; for a broken plugin, its error."""
        return _rules()

    def compare(self, problem: Problem, schedulers: Sequence[str]) -> TrialAnswer:
        """Return reachable rates, cost and moves of their placements, best first.

        Raises
        ------
        InputError
            There is no scheduler of a name.
        """
        found = compare(problem, choose_schedulers(",".join(schedulers)))
        table = comparison_table(found)
        failed = [f"{row.label}: {row.error}" for row in found.rows if row.error]
        named = TextTable(["scheduler", *table.head[1:]], table.rows)
        return TrialAnswer(named, [found.verdict, *found.notes, *failed, _UNITS])

    def what_if(self, problem: Problem, change: Change) -> TrialAnswer:
        """Return the effect of a change, compared with today.

        Raises
        ------
        InputError
            Something of the change cannot be.
        """
        faults: list[Fault] = []
        rates = dict([parse_rate(change.rate, faults)]) if change.rate else {}
        parallelism = dict([parse_executors(change.parallelism, faults)]) if change.parallelism else {}
        link_bps = parse_link(change.link, faults) if change.link else None
        if faults:
            raise InputError("what if", faults)
        killed = (change.kill_node,) if change.kill_node else ()
        found = what_if(
            problem,
            Changes(rates, change.add_nodes, killed, parallelism, link_bps, scheduler=change.scheduler or None),
        )
        names = {topology.id: topology.name for topology in found.problem.topologies}
        rows = list(_rows(names, found.today, found.then))
        notes = [text] if (text := assumed_text(problem)) else []
        if effects := "; ".join(found.effects()):
            notes.append(effects)
        if len(names) > _MAX:
            notes.append(f"and {counted(len(names) - _MAX, 'topology')} more: see the command line")
        for topology, count, reasons in found.assignment.grouped_reasons():
            notes.append(f"no slot for {counted(count, 'executor')} of {topology}: {'; '.join(reasons)}")
        head = ["topology", "", "trees/s requested", "reachable", "latency", "limited by"]
        return TrialAnswer(TextTable(head, rows), notes, text_columns=(1, 5))


def _rows(names: Mapping[str, str], today: Prediction | None, then: Prediction) -> Iterator[list[str]]:
    before = {each.topology: each for each in today.topologies} if today else {}
    for each in then.topologies[:_MAX]:
        if each.topology in before:
            yield [names[each.topology], "today", *_cells(before[each.topology])]
        yield [names[each.topology], "then", *_cells(each)]


def _cells(one: TopologyPrediction) -> list[str]:
    rate_text = f"{one.rate_tps:,.0f}" + (f", {NOT_SUSTAINED[one.sustained]}" if one.sustained in NOT_SUSTAINED else "")
    latency = "–" if one.latency_ms is None else f"{one.latency_ms.value:,.1f} ms"
    return [rate_text, _reach(one.reachable_tps), latency, str(one.bottleneck)]


def _reach(interval: Interval) -> str:
    return f"{interval.value:,.0f} ({interval.low:,.0f} to {interval.high:,.0f})"


@cache
def _rules() -> dict[str, str]:
    return {name: describe_anyway(name).rule for name in scheduler_names()}
