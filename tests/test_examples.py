"""The examples run as they stand, and show what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def printed(path: Path) -> str:
    done = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_first_steps():
    text = printed(EXAMPLES / "first_steps.py")
    ((bound, factor),) = re.findall(r"allows more than ([\d.]+) times the rates; this one ([\d.]+)", text)
    assert 0 < float(factor) <= float(bound)
    assert re.findall(r"cost ([\d,.]+\d)", text)
    assert "optimizer of sketch: 2 topologies" in text


@pytest.mark.long
def test_own_scheduler():
    text = printed(EXAMPLES / "own_scheduler.py")
    assert "one node each of sketch" in text
    _, own = re.findall(r"([\d,.]+) tuples/s between nodes", text)
    assert own == "0.0", "each topology is on one node"
    assert "% cheaper" in text


NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_outputs_are_up_to_date(path):
    """If this fails: make docs. The notebook runs in a kernel of its own."""
    program = [sys.executable, str(ROOT / "tools" / "notebooks.py"), "--check", str(path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def outputs(name: str) -> list[dict[str, Any]]:
    cells = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return [output for cell in cells for output in cell.get("outputs", ())]


def test_notebooks_have_tables_and_drawings():
    assert len(NOTEBOOKS) == 4
    shown = {path.stem: outputs(path.stem) for path in NOTEBOOKS}
    assert [each for found in shown.values() for each in found if each["output_type"] == "error"] == []
    html = {
        name: ["".join(each["data"].get("text/html", "")) for each in found if "data" in each]
        for name, found in shown.items()
    }
    assert sum("<svg" in text for text in html["compare_and_explain"]) == 3, "the problem, and two placements"
    assert sum("<table" in text for text in html["compare_and_explain"]) >= 3
    pictures = {name: sum("image/png" in each.get("data", {}) for each in found) for name, found in shown.items()}
    assert [pictures[name] for name in ("predict_and_simulate", "own_scheduler", "spark")] == [1, 1, 1]


def test_predicted_latencies_in_the_notebook_are_near_the_simulated_ones():
    """Up to half of the highest rate; near it both are sensitive."""
    table = next(
        "".join(each["data"]["text/plain"]) for each in outputs("predict_and_simulate") if "predicted, ms" in str(each)
    )
    rows = [line.split() for line in table.splitlines()[1:]]
    assert len(rows) == 12
    for predicted, simulated in [(float(row[3]), float(row[4])) for row in (*rows[:3], *rows[6:9])]:
        assert simulated == pytest.approx(predicted, rel=0.15)
