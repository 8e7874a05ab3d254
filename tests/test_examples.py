"""The examples and the README's Python run as they stand, and show what they say."""

from __future__ import annotations

import ast
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


def test_first_steps():
    text = printed(EXAMPLES / "first_steps.py")
    costs = [float(number.replace(",", "")) for number in re.findall(r"costs? (?:less than )?([\d,.]+\d)", text)]
    assert len(costs) >= 2
    assert "optimizer of sketch: 2 topologies" in text


def test_own_scheduler():
    text = printed(EXAMPLES / "own_scheduler.py")
    assert "one node each of sketch" in text
    _, own = re.findall(r"([\d,.]+) tuples/s between nodes", text)
    assert own == "0.0", "each topology is on one node"
    assert "% cheaper" in text


def test_the_notebook_draws():
    """Its cells in order; what the last expression of each gives is what a notebook shows."""
    cells = json.loads((EXAMPLES / "first_steps.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
    drawn = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert len(drawn) == 3
    assert sum("<svg" in html for html in drawn) == 2
    assert "<table" in drawn[2]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """The value of a cell's last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 (the notebook is ours)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None  # noqa: S307


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_python_in_the_docs_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)  # noqa: S102 (the docs are ours)
