"""Schedulers of which only an abstract was at hand, on one word count."""

from __future__ import annotations

from stormwright.schedulers.toolkit.describe import citation
from stormwright_lab.evaluations.definitions import (
    BEFORE_STORM_2,
    Block,
    OrderClaim,
    Paper,
    PublishedRow,
    ReportedFigure,
    Variant,
)

DEFAULT = "default"

_PUBLISHED = ("t_storm", "p_scheduler", "d_storm", "toss", "metis", "genetic", "model_driven")

_RULES = (*_PUBLISHED, "optimizer")

_BLOCK = Block(
    "word count",
    ("word-count:spouts=4,split=8,count=8,ackers=4",),
    {
        DEFAULT: Variant("even"),
        **{rule: Variant(rule) for rule in _RULES},
        "genetic, random start": Variant("genetic", {"start": "random"}),
        "metis, authors' parameters": Variant("metis", {"variant": "authors"}),
    },
    workers=5,
    share=0.5,
    conf=BEFORE_STORM_2,
)

_NO_NUMBER = "The text at hand has no figure; what is shown is ours."


def _reported(*figures: str) -> tuple[ReportedFigure, ...]:
    return tuple(ReportedFigure(_BLOCK.name, figure) for figure in figures)


PAPER = Paper(
    name="other-schedulers",
    title="T-Storm, P-Scheduler, D-Storm, TOSS and others",
    source="; ".join(citation(rule) for rule in _PUBLISHED),
    how="Word count at half of the highest rate under default; all get the load measured there. Threads without work "
    "sleep, and shuffled tuples go to all tasks alike, as in Storm before 2.0.",
    rows=(
        PublishedRow(
            "T-Storm, abstract",
            "27 to 84 % less processing time, with 30 % fewer nodes",
            (
                OrderClaim(_BLOCK.name, "latency_ms", "t_storm", DEFAULT, more=False, published=(0.16, 0.73)),
                OrderClaim(_BLOCK.name, "nodes", "t_storm", DEFAULT, more=False, published=0.7),
                *_reported("latency_ms", "nodes"),
            ),
            "Of five nodes 0.6 or 0.8 can be used, not 0.7. The CPU of the three nodes that it uses does not sustain "
            "half of the highest rate, so queues grow; the authors' nodes had CPU to spare.",
        ),
        PublishedRow(
            "P-Scheduler",
            "Less traffic between nodes, on as many as the load needs",
            (
                OrderClaim(_BLOCK.name, "inter_node_per_acked", "p_scheduler", DEFAULT, more=False),
                *_reported("inter_node_tps"),
            ),
            _NO_NUMBER,
        ),
        PublishedRow(
            "D-Storm",
            "Less traffic between nodes; by TOP-Storm's authors 20 times slower to decide than default",
            (OrderClaim(_BLOCK.name, "inter_node_per_acked", "d_storm", DEFAULT, more=False),),
            "How long deciding takes is a matter of code more than of a rule: ours is compiled.",
        ),
        PublishedRow(
            "TOSS",
            "Less communication",
            (OrderClaim(_BLOCK.name, "inter_node_per_acked", "toss", DEFAULT, more=False),),
            f"{_NO_NUMBER} Every component of a word count has one neighbour on each side, and executors of five "
            "workers each: few pairs that communicate can share one, and balancing parts them.",
        ),
        PublishedRow(
            "Genetic algorithm, METIS",
            "More throughput; least communication volume",
            _reported("acked_tps", "inter_node_per_acked"),
            _NO_NUMBER,
        ),
        PublishedRow(
            "Model-driven scheduling, abstract",
            "Predictable performance and use of resources",
            _reported("acked_tps", "used_cpu_percent", "nodes"),
            _NO_NUMBER,
        ),
    ),
    blocks=(_BLOCK,),
)
