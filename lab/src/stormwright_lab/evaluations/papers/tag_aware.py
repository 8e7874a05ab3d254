"""Tag-aware scheduling: the article's pictures as problems."""

from __future__ import annotations

from functools import partial

from stormwright.formats.document.faults import FaultList
from stormwright.formats.storm.conf import Layer, StormConf
from stormwright.formats.storm.submission import ACKERS, WORKERS, UserComponent, submitted
from stormwright.model import UNPLACED, Grouping, Problem, Supervisor
from stormwright.schedulers.toolkit.describe import citation
from stormwright_lab.evaluations.definitions import NumberClaim, Paper, PublishedRow

_TAG = "GPU"


def _problem(with_gpu: int) -> Problem:
    """Return a spout and three bolts of an executor each, the last for a GPU, on four supervisors."""
    plain = StormConf([])
    names = ("spout", "bolt1", "bolt2", "bolt3")
    components = [
        UserComponent(
            name,
            "bolt" if before else "spout",
            1,
            StormConf([Layer({"tags": _TAG}, FaultList())]) if name == "bolt3" else plain,
            (Grouping(before),) if before else (),
        )
        for name, before in zip(names, (None, *names), strict=False)
    ]
    conf = StormConf([Layer({WORKERS: 4, ACKERS: 0}, FaultList())])
    nodes = tuple(
        Supervisor(name, name, (6700, 6701), 1e9, scheduler_meta={"tags": _TAG} if number < with_gpu else {})
        for number, name in enumerate(f"supervisor{n}" for n in range(4))
    )
    return Problem(supervisors=nodes, topologies=(submitted("example", components, conf, plain, 1),))


def _count(scheduler: str, with_gpu: int, what: str) -> float:
    from stormwright.schedulers import make_scheduler

    problem = _problem(with_gpu)
    slots = make_scheduler(scheduler).schedule(problem).slot_of_executor
    if what == "unplaced":
        return int((slots == UNPLACED).sum())
    if what == "nodes":
        return len(set(problem.slot_node[slots].tolist()))
    (topology,) = problem.topologies
    names = [topology.components[c].id for c in topology.executor_component.tolist()]
    tagged = [slot for slot, name in zip(slots.tolist(), names, strict=True) if name == "bolt3"]
    return sum(int(problem.slot_node[slot]) < with_gpu for slot in tagged)


PAPER = Paper(
    name="tag-aware",
    title="Tag-aware scheduling: the article's example",
    source=citation("tag_aware"),
    how="The article measures nothing; what its pictures show is computed on its example, without a cluster.",
    rows=(
        PublishedRow(
            "Anatomy of a Storm cluster", "What a cluster consists of", why_not="An illustration: nothing is claimed."
        ),
        PublishedRow(
            "Default scheduling",
            "Four executors on four supervisors, one each",
            (NumberClaim("nodes used under even", 4, partial(_count, "even", 1, "nodes")),),
        ),
        PublishedRow(
            "Custom scheduling",
            "Bolt3 is on the supervisor with the GPU",
            (NumberClaim("executors of Bolt3 on it", 1, partial(_count, "tag_aware", 1, "tagged")),),
        ),
        PublishedRow(
            "Example of successful scheduling feedback",
            "Everything is scheduled",
            (NumberClaim("executors without a slot", 0, partial(_count, "tag_aware", 1, "unplaced")),),
        ),
        PublishedRow(
            "Example of unsuccessful scheduling feedback",
            "Without a slot for one, nothing is scheduled",
            (NumberClaim("executors without a slot, without a GPU", 4, partial(_count, "tag_aware", 0, "unplaced")),),
        ),
    ),
)
