"""Write the figures of ``README.md`` from ``docs/results``.

``python tools/readme_figures.py README.md`` (or ``make docs``) replaces the texts between ``<!-- NAME -->`` and
``<!-- end -->``, where NAME is one of `FIGURES`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"

_MARKED = re.compile(r"(<!-- ([a-z-]+) -->).*?(<!-- end -->)", re.DOTALL)


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def decisions() -> str:
    """Return the outcome of first decisions on a real cluster."""
    cells = _read("storm-decisions")["cells"]
    verdicts = [cell["measured"]["verdict"] for cell in cells if cell["moved"]]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in ("better", "worse", "undecided"))
    return f"of {len(cells)} measured cells {len(verdicts)} were moved: {counts}"


#: Name → text.
FIGURES: Mapping[str, Callable[[], str]] = {"decisions": decisions}


def with_figures(text: str) -> str:
    """Return a text with the present figures.

    Raises
    ------
    KeyError
        It names a figure that does not exist.
    """
    return _MARKED.sub(lambda found: f"{found[1]}{FIGURES[found[2]]()}{found[3]}", text)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_figures(path.read_text(encoding="utf-8")), encoding="utf-8")
