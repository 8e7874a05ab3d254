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

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"

LEAD = """<!-- Made by `make docs` from docs/results/storm-decisions.json and docs/results/prediction-cells.json. -->
# How often promises come true

A service promises what a move brings before it makes it: the rate after it as a multiple of the rate before, with an
interval that should hold it 19 times in 20 ([how it is found](predict.md#gains)). This page holds promises against what
then ran on a real cluster whose nodes have their own CPU and links.
"""

METHOD = """## How it is measured

A cell is one to three topologies under limits of CPU and links, with default options of the JVM or with the first
compiler only. They start under Storm's EvenScheduler; from that one start costs are fitted, and the service's rule
decides. Then both placements take turns, new workers each time, and are compared over starts. *Undecided* says that
starts differ by more than the placements do. The machine is shared; nothing is corrected by its speed, which is
recorded beside each start.
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
        f"Of {len(cells)} cells {len(moved)} were moved ({counts}); the others stayed where they were, as no gain was "
        "sure. "
    )
    if moved:
        errors = [abs(cell["promised"]["value"] / cell["measured"]["ratio"] - 1) for cell in moved]
        inside = sum(c["promised"]["low"] <= c["measured"]["ratio"] <= c["promised"]["high"] for c in moved)
        gains = geometric_mean([cell["measured"]["ratio"] for cell in moved])
        yield (
            f"Where it moved, the rate became {gains:.2f} times as high in the geometric mean. The promise was off by "
            f"{median(errors):.0%} in the median and by {max(errors):.0%} at worst, and its interval held what was "
            f"measured in {inside} of {len(moved)} moves."
        )
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
    name = cell["name"] + ("" if cell["cell"]["developed_on"] else " *")
    if not cell["moved"]:
        return f"| {name} | {even:,.0f} | stay | | not moved | {beside} |"
    promised, measured = cell["promised"], cell["measured"]
    figures = (
        f"{of[mid]:.2f} ({of['low']:.2f}–{of['high']:.2f})" for of, mid in ((promised, "value"), (measured, "ratio"))
    )
    return f"| {name} | {even:,.0f} | {' | '.join(figures)} | {measured['verdict']} | {beside} |"


def _predictions(found: Mapping[str, Any]) -> Iterator[str]:
    yield "\\* Topologies whose records were not looked at while the model was made.\n"
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
