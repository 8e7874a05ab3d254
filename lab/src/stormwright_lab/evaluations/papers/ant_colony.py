"""Generic rules and the ant colony of Wang and Wang: how much CPU nodes use, and how evenly."""

from __future__ import annotations

from stormwright.schedulers.toolkit.describe import citation
from stormwright_lab.evaluations.definitions import (
    SLEEPING,
    Block,
    OrderClaim,
    Paper,
    PublishedRow,
    ReportedFigure,
    Variant,
)

ROUND_ROBIN, ANTS, OURS = "round robin", "ant colony", "optimizer"
RANDOM_ANTS = "ant colony, random start"

_BLOCK = Block(
    "word count",
    ("word-count:spouts=3,split=6,count=6,ackers=3",),
    {
        ROUND_ROBIN: Variant("even"),
        ANTS: Variant("ant_colony"),
        RANDOM_ANTS: Variant("ant_colony", {"start": "random"}),
        OURS: Variant("optimizer", {"objective": "throughput"}),
    },
    workers=5,
    share=0.5,
    conf=SLEEPING,
)

PAPER = Paper(
    name="ant-colony",
    title="Ant colony: CPU of the nodes",
    source=f"{citation('ant_colony')}; and a list of generic rules",
    how="Only the abstract was at hand, with three numbers against round robin. Word count at one rate, half of the "
    "highest under Storm's own scheduler, on five alike nodes; threads without work sleep; three starts each, the"
    " ants with seeds 0, 1 and 2, once from the placement of `online` and once from a random one; how theirs "
    "start is not known.",
    rows=(
        PublishedRow(
            "Abstract, CPU",
            "26 % less CPU load on average",
            (
                OrderClaim(_BLOCK.name, "cpu_percent", ANTS, ROUND_ROBIN, more=False, published=0.74),
                OrderClaim(_BLOCK.name, "cpu_percent", RANDOM_ANTS, ROUND_ROBIN, more=False, published=0.74),
                ReportedFigure(_BLOCK.name, "cpu_percent"),
            ),
        ),
        PublishedRow(
            "Abstract, standard deviation",
            "3.5 % less standard deviation of it",
            (
                OrderClaim(_BLOCK.name, "cpu_sd_percent", ANTS, ROUND_ROBIN, more=False, published=0.965),
                OrderClaim(_BLOCK.name, "cpu_sd_percent", RANDOM_ANTS, ROUND_ROBIN, more=False, published=0.965),
                ReportedFigure(_BLOCK.name, "cpu_sd_percent"),
            ),
        ),
        PublishedRow(
            "Abstract, efficiency",
            "21.6 % more efficient than round robin",
            (ReportedFigure(_BLOCK.name, "acked_tps"), ReportedFigure(_BLOCK.name, "latency_ms")),
            "The available text lacks this part.",
        ),
        PublishedRow(
            "Abstract, parameters",
            "Best alpha and beta, and number of iterations",
            why_not="Their values are in a part of the paper that was not at hand.",
        ),
        PublishedRow(
            "The generic rules",
            "Round robin, weighted, random, fewest tasks, nearest load and others",
            why_not="A list of rules without a figure; `stormwright compare` holds them beside each other. Two of its "
            "entries say neither by what nor how, so they define no rule: adaptive scheduling (change the assignment "
            "by how tasks run) and the genetic algorithm (model it as a problem of optimisation). The text at hand "
            "ends there: shortest path, best speed-up, and static, dynamic and mixed assignment are not in it.",
        ),
    ),
    blocks=(_BLOCK,),
)
