"""R-Storm: three shapes limited by links and by CPU, and two topologies of Yahoo, alone and together."""

from __future__ import annotations

from stormwright.schedulers.toolkit.describe import citation
from stormwright_lab.evaluations.definitions import (
    BEFORE_STORM_2,
    Block,
    Claim,
    Machine,
    OrderClaim,
    Paper,
    PublishedRow,
    ReportedFigure,
    Variant,
)

DEFAULT, R_STORM, OURS = "default", "R-Storm", "optimizer"

_VARIANTS = {
    DEFAULT: Variant("even"),
    R_STORM: Variant("java:ResourceAwareScheduler"),
    OURS: Variant("optimizer", {"objective": "throughput"}),
}

#: Each node declares 100 points of CPU.
_MACHINES = tuple(Machine(100.0, 4096.0) for _ in range(5))
_CONF = {**BEFORE_STORM_2, "topology.worker.max.heap.size.mb": 768.0}

#: Executors as published where they are.
_SIZES = {
    "linear": "spout=4,bolt-1=6,bolt-2=6,bolt-3=6",
    "diamond": "spout=2,bolt-1=4,bolt-2=4,bolt-3=4,sink=6",
    "star": "spout-1=2,spout-2=2,center=6,sink-1=6,sink-2=6",
    "page-load": "spout=3,transform=3,filter-1=3,join=3,filter-2=3,aggregate=3,sink=3",
    "processing": "spout=2,transform=4,filter=4,join-1=4,sink-1=4,join-2=4,normalize=4,sink-2=4",
}


def _block(name: str, *topologies: str, link: str, points: float = 11.0) -> Block:
    """Return a block whose executors request `points` of CPU, so that not all nodes are needed."""
    conf = {**_CONF, "topology.component.cpu.pcore.percent": points}
    return Block(name, topologies, _VARIANTS, workers=5, link=link, machines=_MACHINES, conf=conf)


def _shape(shape: str, **more: int) -> str:
    arguments = ",".join([_SIZES[shape], "ackers=2", *(f"{key}={value}" for key, value in more.items())])
    return f"{shape}:{arguments}"


_LINKS = [_block(f"{shape}, links", _shape(shape, bytes=2000), link="5mbit") for shape in ("linear", "diamond", "star")]
_CPU = [_block(f"{shape}, CPU", _shape(shape, bytes=50, work_us=100), link="100mbit") for shape in ("linear", "star")]
_YAHOO = [_block(shape, _shape(shape, bytes=2000, work_us=5), link="5mbit") for shape in ("page-load", "processing")]
_TOGETHER = _block(
    "together",
    _shape("page-load", bytes=2000, work_us=5),
    _shape("processing", bytes=2000, work_us=5),
    link="5mbit",
    points=7.0,
)


def _faster(*blocks: Block, published: float | tuple[float, float] | None = None) -> tuple[Claim, ...]:
    orders = [OrderClaim(block.name, "acked_tps", R_STORM, DEFAULT, more=True, published=published) for block in blocks]
    return (
        *orders,
        *(ReportedFigure(block.name, figure) for block in blocks for figure in ("acked_tps", "inter_node_tps")),
    )


_CPU_IS_FULL = (
    "Links limit default, and R-Storm uses fewer: but then the CPU of its three or four nodes is full, since it knows "
    "what executors ask for, which is not what large tuples take to send. Two racks and slow ways between nodes, as in "
    "its own evaluation, are not reproduced."
)

PAPER = Paper(
    name="r-storm",
    title="R-Storm: linear, diamond, star, page load and processing",
    source=citation("r_storm"),
    how="R-Storm is Storm's own class, ResourceAwareScheduler, as it is in 2.8.3. Only the paper's abstract was at "
    "hand, and its topologies by their shapes: work and sizes of tuples are ours, chosen so that links or CPU are"
    " the limit. Storm 2 keeps shuffled tuples in the worker where it can; theirs did not, so that is switched "
    "off, and threads without work sleep. Nodes declare 100 points of CPU, executors ask for 11 each, and for 7 "
    "where two topologies share them.",
    rows=(
        PublishedRow(
            "Abstract, micro-benchmarks, links",
            "30 to 47 % more throughput than default",
            _faster(*_LINKS, published=(1.3, 1.47)),
            _CPU_IS_FULL,
        ),
        PublishedRow(
            "Abstract, micro-benchmarks, CPU",
            "69 to 350 % better use of CPU than default: as much throughput on fewer nodes",
            (
                *(
                    OrderClaim(block.name, "used_cpu_percent", R_STORM, DEFAULT, more=True, published=(1.69, 4.5))
                    for block in _CPU
                ),
                *(OrderClaim(block.name, "nodes", R_STORM, DEFAULT, more=False) for block in _CPU),
                *(ReportedFigure(block.name, "acked_tps") for block in _CPU),
            ),
            "Diamond is left out: it does the work of three bolts at once, as star does. Default fills the CPU of all "
            "nodes already, so none can be used better; on three of five nodes less goes through.",
        ),
        PublishedRow(
            "Conclusions, page load",
            "About 50 % more throughput than default",
            _faster(_YAHOO[0], published=1.5),
            _CPU_IS_FULL,
        ),
        PublishedRow(
            "Conclusions, processing",
            "About 47 % more throughput than default",
            _faster(_YAHOO[1], published=1.47),
            _CPU_IS_FULL,
        ),
        PublishedRow(
            "Abstract, several topologies", "Much more throughput together than under default", _faster(_TOGETHER)
        ),
        PublishedRow("Its figures and tables", "Curves of each topology over time", why_not="They were not at hand."),
    ),
    blocks=(*_LINKS, *_CPU, *_YAHOO, _TOGETHER),
)
