"""Type checkers see the public names as a user's code does: mypy --strict over the examples and the docs' Python."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stormwright as sw

ROOT = Path(__file__).parents[1]
PACKAGE = Path(sw.__file__).parent

# One process of mypy for all.
pytestmark = pytest.mark.xdist_group("mypy")

#: Packages that examples use and that are not installed here.
CONFIG = """[mypy]
strict = true
[mypy-sentry_sdk]
ignore_missing_imports = true
"""

#: Expression → its type.
REVEALED = {
    "sw.Problem((), ())": "stormwright.model.problem.Problem",
    'sw.sketch("a 1 -> b 2")': "stormwright.model.problem.Problem",
    'sw.place(problem, "even")': "stormwright.api.Placement",
    "sw.compare(problem).rows[0].name": "str",
    "sw.predict(problem)": "stormwright.predict.prediction.Prediction",
    "sw.what_if(problem)": "stormwright.workbench.what_if.WhatIf",
    "sw.tradeoff(problem)": "stormwright.workbench.tradeoff_curve.Tradeoff",
    'sw.schedulers()["even"]': "stormwright.schedulers.toolkit.describe.Description",
}

#: Lines that are faults.
FAULTS = ("sw.plaice(problem)", "sw.place(7)", "sw.predict(problem, problem)", "number: int = sw.schedulers()")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str, str]]]:
    """File name → line, severity and text of each message of mypy."""
    folder = tmp_path_factory.mktemp("typed")
    for path in (ROOT / "examples").glob("*.py"):
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    for path in (ROOT / "examples").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        (folder / f"{path.stem}_notebook.py").write_text("\n".join(code) + "\n", encoding="utf-8")
    for name in ("README.md", "docs/python.md"):
        code = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        (folder / f"{Path(name).stem.lower()}_md.py").write_text("".join(code), encoding="utf-8")
    begin = "import stormwright as sw\nproblem = sw.Problem((), ())\n"
    revealed = "\n".join(f"reveal_type({each})" for each in REVEALED)
    (folder / "revealed.py").write_text(f"{begin}{revealed}\n", encoding="utf-8")
    (folder / "faults.py").write_text(begin + "\n".join(FAULTS) + "\n", encoding="utf-8")
    (folder / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    files = sorted(path.name for path in folder.glob("*.py"))
    # mypy takes what is on the interpreter's path for installed: without `py.typed` it would be no types at all.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary", *files],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    messages: dict[str, list[tuple[int, str, str]]] = {name: [] for name in files}
    for line in done.stdout.splitlines():
        name, number, severity, text = line.split(":", 3)
        messages.setdefault(name, []).append((int(number), severity.strip(), text.strip()))
    return messages


def test_examples_and_docs_have_no_type_errors(found):
    own = {name: messages for name, messages in found.items() if name not in ("revealed.py", "faults.py")}
    assert {"readme_md.py", "python_md.py", "first_steps_notebook.py", "own_scheduler.py"} <= set(own)
    assert {name: messages for name, messages in own.items() if messages} == {}


def test_public_names_have_types(found):
    types = [re.fullmatch('Revealed type is "(.*)"', text) for _, _, text in found["revealed.py"]]
    assert [match and match[1] for match in types] == list(REVEALED.values())


def test_faults_are_errors(found):
    lines = [line for line, severity, _ in found["faults.py"] if severity == "error"]
    assert sorted(set(lines)) == [3 + index for index in range(len(FAULTS))]


def test_names_for_type_checkers_and_at_runtime_are_the_same():

    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (typed,) = [node.body for node in tree.body if isinstance(node, ast.If)]
    imported = {
        name.asname: (node.module, name.name)
        for node in typed
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    declared = {node.target.id: imported.pop(node.annotation.id) for node in typed if isinstance(node, ast.AnnAssign)}
    assert sorted([*imported, *declared, "__version__"]) == sorted(sw.__all__)
    for name, (module, original) in imported.items():
        assert name == original
        assert getattr(sw, name) is getattr(sys.modules[module], name)
    for name, (module, kind) in declared.items():
        assert getattr(sw, name) is sys.modules[module]
        assert type(getattr(sw, name)) is getattr(sys.modules[module], kind)
