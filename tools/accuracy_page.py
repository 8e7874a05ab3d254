"""Write ``docs/accuracy.md``: what is promised of placements, how often it comes true, and where not.

``python tools/accuracy_page.py docs/accuracy.md`` (or ``make docs``). Every figure is read from ``docs/results``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

#: Topologies whose records were looked at while the model was made.
DEVELOPED_ON = {"word-count", "exclamation", "diamond", "star", "sol"}

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"

LEAD = """<!-- Made by `make docs` from docs/results/storm-decisions.json and docs/results/prediction-cells.json. -->
# Accuracy of predicted gains

Before each move the service predicts its gain: the rate afterwards as a multiple of the rate before, with an interval
that is meant to contain it 19 times in 20 ([how it is computed](predict.md#gains)). It decides by this figure, except
that rates above twice the measured one count for no more. This page compares predictions with measurements on a real
cluster whose nodes have their own CPU and links.
"""

METHOD = """## How it is measured

A cell is one to three topologies under limits of CPU and links, with default options of the JVM or with the first
compiler only. They start under Storm's EvenScheduler; from that one start costs are fitted, and the service's rule
decides. Then both placements take turns, with new workers each time, and are compared over starts. *Undecided*: the
starts differ by more than the placements do. The column *beside* is one start of another placement, at another time,
±30 %; empty cells were not measured. Even's rate is the sum over topologies, gains are geometric means. The machine is
shared; no figure is corrected by its speed, which is recorded beside each start.
"""


def main(path: Path) -> None:
    """Write the page."""
    decisions, predictions = (_read(name) for name in ("storm-decisions", "prediction-cells"))
    parts = [LEAD, *_first_decisions(decisions), METHOD, *_predictions(predictions)]
    path.write_text("\n".join(parts), encoding="utf-8")


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _first_decisions(found: Mapping[str, Any]) -> Iterator[str]:
    cells = found["cells"]
    moved = [cell for cell in cells if cell["moved"]]
    verdicts = [cell["measured"]["verdict"] for cell in moved]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in ("better", "worse", "undecided"))
    yield "## The first decision of a service that knows nothing\n"
    yield (
        f"Of {len(cells)} cells {len(moved)} were moved ({counts}); for the others no better placement was found, or "
        "its gain was below 10 % or not certain."
    )
    if moved:
        errors = [abs(cell["promised"]["value"] / cell["measured"]["ratio"] - 1) for cell in moved]
        inside = sum(c["promised"]["low"] <= c["measured"]["ratio"] <= c["promised"]["high"] for c in moved)
        gains = geometric_mean([cell["measured"]["ratio"] for cell in moved])
        low = sum(cell["measured"]["ratio"] > cell["promised"]["value"] for cell in moved)
        yield (
            f"Of moved cells the rate became {gains:.2f} times as high in the geometric mean. Predictions were off by "
            f"{median(errors):.0%} in the median and by {max(errors):.0%} at worst, {low} of {len(moved)} too low. The "
            f"interval contained the measurement in {inside} of {len(moved)} moves: do not read it as 95 % yet."
        )
    yield ""
    yield "| figure | goal | measured |"
    yield "|---|---|---|"
    for row in found["figures"]:
        if row["asked"]:
            yield f"| {row['figure']} | {row['asked']} | {row['measured']} |"
    yield ""
    yield "| cell | Even, trees/s | promised | measured | verdict | beside |"
    yield "|---|---|---|---|---|---|"
    yield from map(_row, cells)
    yield ""
    when = f"Measured {found['date']} at commit {found['commit']}, {found['machine']}"
    yield f"{when}: [results](results/storm-decisions.md).\n"


def _row(cell: Mapping[str, Any]) -> str:
    even = median(sum(start["tps"]) for start in cell["starts"]["even"])
    beside = ", ".join(f"{name} {each['ratio']:.2f}" for name, each in cell["beside"].items())
    kinds = {each.partition(":")[0] for each in cell["cell"]["topologies"]}
    name = cell["name"] + ("" if cell["cell"]["developed_on"] or kinds & DEVELOPED_ON else " *")
    if not cell["moved"]:
        return f"| {name} | {even:,.0f} | stay | | not moved | {beside} |"
    promised, measured = cell["promised"], cell["measured"]
    figures = (
        f"{of[mid]:.2f} ({of['low']:.2f}–{of['high']:.2f})" for of, mid in ((promised, "value"), (measured, "ratio"))
    )
    return f"| {name} | {even:,.0f} | {' | '.join(figures)} | {measured['verdict']} | {beside} |"


def _predictions(found: Mapping[str, Any]) -> Iterator[str]:
    yield "\\* No record of any of its topologies was looked at while the model was made.\n"
    yield "## Rates, latency and use of nodes, from one placement to others\n"
    yield "| figure | measured |"
    yield "|---|---|"
    for row in found["figures"]:
        if row["figure"].startswith(("throughput", "mean latency", "CPU per node", "tuples per link", "regret, from")):
            yield f"| {row['figure']} | {row['measured']} |"
    yield ""
    yield f"Measured {found['date']} at commit {found['commit']}: [results](results/prediction-cells.md).\n"
    yield (
        "Where it errs: placements that pack many more threads onto a node than were measured, links at their limit, "
        "and latency of nodes held to a quota ([what is not known](predict.md#what-it-does-not-know))."
    )
    yield ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
