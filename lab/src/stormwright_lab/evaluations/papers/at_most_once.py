"""Topologies without ackers: losses of a move."""

from __future__ import annotations

from stormwright_lab.evaluations.definitions import (
    MOVED_BY,
    SAFE_MOVE,
    STORMS_REBALANCE,
    Block,
    LimitClaim,
    OrderClaim,
    Paper,
    PublishedRow,
    ReportedFigure,
    Variant,
)

REBALANCE, MOVE = "rebalance", "safe move"

_VARIANTS = {
    REBALANCE: Variant("even", {MOVED_BY: STORMS_REBALANCE}),
    MOVE: Variant("even", {MOVED_BY: SAFE_MOVE}),
}

_BLOCKS = {
    ackers: Block(
        "without ackers" if ackers == 0 else "with ackers",
        (f"word-count:spouts=2,split=4,count=4,ackers={ackers}",),
        _VARIANTS,
        workers=3,
        share=0.5,
        kind="moves",
    )
    for ackers in (0, 2)
}
_WITHOUT, _WITH = _BLOCKS[0].name, _BLOCKS[2].name

PAPER = Paper(
    name="at-most-once",
    title="At most once: what a move loses without ackers",
    source="No paper: Storm promises that nothing is lost only where there are ackers (Storm @Twitter, §2.3), and "
    "Aniello, Baldoni, Querzoni that their moves discard no events (§1)",
    how="Word count at half of its highest rate on three nodes; every worker goes to the next node, once by Storm's "
    "own rebalance without a wait and once by the safe move of `stormwright serve`. What was sent to bolts less what "
    "they got is lost, as far as probes can measure: the rest is compared with a thousandth of a second of the stream. "
    "Workers that Storm kills report nothing of their last half second. Without ackers nothing begins those again that "
    "are lost.",
    rows=(
        PublishedRow(
            "Adaptive online scheduling, §1",
            "No events are discarded when a topology moves",
            (
                LimitClaim(_WITH, "lost_trees", MOVE, 0.0, at_least=False),
                LimitClaim(_WITH, "failed", MOVE, 0.0, at_least=False),
                LimitClaim(_WITHOUT, "lost_s", MOVE, 0.001, at_least=False),
            ),
        ),
        PublishedRow(
            "Storm @Twitter, §2.3",
            "At most once: tuples are lost where something fails",
            (
                OrderClaim(_WITHOUT, "lost_tuples", REBALANCE, MOVE, more=True),
                ReportedFigure(_WITHOUT, "lost_tuples"),
                ReportedFigure(_WITHOUT, "lost_s"),
                ReportedFigure(_WITHOUT, "silence_s"),
            ),
        ),
        PublishedRow(
            "Storm @Twitter, §2.3",
            "At least once: trees that fail begin again",
            (ReportedFigure(_WITH, "failed"), ReportedFigure(_WITH, "lost_trees"), ReportedFigure(_WITH, "silence_s")),
        ),
    ),
    blocks=tuple(_BLOCKS.values()),
)
