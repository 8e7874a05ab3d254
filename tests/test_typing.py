"""mypy and pyright, both strict, see the public names as a user does: in the examples and the docs' Python."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import stormwright as sw

ROOT = Path(__file__).parents[1]
PACKAGE = Path(sw.__file__).parent

# One process of each checker for all.
pytestmark = pytest.mark.xdist_group("types")

#: Packages that examples use and that have no types, or are not installed here.
CONFIG = """[mypy]
strict = true
[mypy-sentry_sdk,pandas.*,networkx.*,scipy.*]
ignore_missing_imports = true
"""

#: The same for pyright. Types of other packages are not ours: those that it does not know are no errors here.
PYRIGHT = {
    "typeCheckingMode": "strict",
    "extraPaths": [str(PACKAGE.parent)],
    "reportMissingImports": "none",
    "reportMissingTypeStubs": "none",
    "reportMissingModuleSource": "none",
    "reportUnknownMemberType": "none",
    "reportUnknownVariableType": "none",
    "reportUnknownArgumentType": "none",
    "reportUnusedExpression": "none",  # what the last line of a cell shows
}

#: Expression → its type, as mypy and as pyright name it.
REVEALED = {
    "sw.Problem((), ())": "stormwright.model.problem.Problem",
    'sw.sketch("a 1 -> b 2")': "stormwright.model.problem.Problem",
    'sw.place(problem, "even")': "stormwright.api.Placement",
    "sw.compare(problem).rows[0].name": "str",
    "[row.name for row in sw.compare(problem)]": "list[str]",
    "sw.predict(problem)": "stormwright.predict.prediction.Prediction",
    "sw.what_if(problem)": "stormwright.workbench.what_if.WhatIf",
    "sw.tradeoff(problem)": "stormwright.workbench.tradeoff_curve.Tradeoff",
    "sw.simulate(problem)": "stormwright.workbench.simulated.simulation.Simulation",
    "sw.advise(problem, rate=1)": "stormwright.advise.search.advice.Advice",
    'sw.sweep(problems=problem, schedulers="even")': "stormwright.workbench.sweep.result.SweepResult",
    'sw.schedulers()["even"]': "stormwright.schedulers.toolkit.describe.Description",
}

#: Lines that are faults.
FAULTS = (
    "sw.plaice(problem)",
    "sw.place(7)",
    "sw.predict(problem, problem)",
    "number: int = sw.schedulers()",
    "sw.simulate(problem, seconds='long')",
)

BEGIN = "import stormwright as sw\nproblem = sw.Problem((), ())\n"


class Message(NamedTuple):
    """A message of a type checker about a line."""

    line: int
    severity: str
    text: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with code of users."""
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
    revealed = "\n".join(f"reveal_type({each})" for each in REVEALED)
    (folder / "revealed.py").write_text(f"{BEGIN}{revealed}\n", encoding="utf-8")
    (folder / "faults.py").write_text(BEGIN + "\n".join(FAULTS) + "\n", encoding="utf-8")
    (folder / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT), encoding="utf-8")
    return folder


def by_mypy(folder: Path) -> dict[str, list[Message]]:
    """Messages of mypy by file."""
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
    messages: dict[str, list[Message]] = {name: [] for name in files}
    for line in done.stdout.splitlines():
        name, number, severity, text = line.split(":", 3)
        messages.setdefault(name, []).append(Message(int(number), severity.strip(), text.strip()))
    return messages


def by_pyright(folder: Path) -> dict[str, list[Message]]:
    """Messages of pyright by file."""
    program = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    messages: dict[str, list[Message]] = {path.name: [] for path in folder.glob("*.py")}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        line = each["range"]["start"]["line"] + 1
        messages[Path(each["file"]).name].append(Message(line, each["severity"], each["message"]))
    return messages


CHECKERS = {"mypy": by_mypy, "pyright": by_pyright}


@pytest.fixture(scope="module", params=CHECKERS)
def checker(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def found(folder: Path, checker: str) -> dict[str, list[Message]]:
    """File name → messages of a type checker."""
    return CHECKERS[checker](folder)


@pytest.mark.slow
def test_examples_and_docs_have_no_type_errors(found):
    own = {name: messages for name, messages in found.items() if name not in ("revealed.py", "faults.py")}
    assert {"readme_md.py", "python_md.py", "own_scheduler.py"} <= set(own)
    assert {f"{path.stem}_notebook.py" for path in (ROOT / "examples").glob("*.ipynb")} <= set(own)
    assert {name: messages for name, messages in own.items() if messages} == {}


@pytest.mark.slow
def test_public_names_have_types(found, checker):
    texts = [re.split(r"""[Rr]evealed type is |Type of .* is (?=")""", each.text)[-1] for each in found["revealed.py"]]
    # pyright names a class without its module.
    expected = [name if checker == "mypy" or "[" in name else name.rpartition(".")[2] for name in REVEALED.values()]
    assert [text.strip('"').replace("builtins.", "") for text in texts] == expected


def test_faults_are_errors(found):
    lines = [each.line for each in found["faults.py"] if each.severity == "error"]
    assert sorted(set(lines)) == [len(BEGIN.splitlines()) + 1 + index for index in range(len(FAULTS))]


@pytest.mark.parametrize("package", [sw], ids=lambda package: package.__name__)
def test_names_for_type_checkers_and_at_runtime_are_the_same(package):
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    (typed,) = [node.body for node in tree.body if isinstance(node, ast.If)]
    imported = {
        name.asname: (node.module, name.name)
        for node in typed
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    declared = {node.target.id: imported.pop(node.annotation.id) for node in typed if isinstance(node, ast.AnnAssign)}
    assert sorted([*imported, *declared]) == sorted({*package.__all__} - {"__version__"})
    for name, (module, original) in imported.items():
        assert name == original
        assert getattr(package, name) is getattr(sys.modules[module], name)
    for name, (module, kind) in declared.items():
        assert getattr(package, name) is sys.modules[module]
        assert type(getattr(package, name)) is getattr(sys.modules[module], kind)
