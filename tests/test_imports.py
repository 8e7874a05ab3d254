"""Which room may import which, and what `import stormwright` may bring along."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import stormwright

ROOT = Path(stormwright.__file__).parent

EVERYTHING = frozenset(path.name for path in ROOT.iterdir() if path.is_dir() and any(path.rglob("*.py")))

#: Rooms from the foundation up: each imports those below it, itself, and none beside it.
STOREYS: tuple[frozenset[str], ...] = (
    frozenset({"model", "perflog", "client", "compiling"}),
    frozenset({"formats"}),
    frozenset({"storm", "pipeline", "predict"}),
    frozenset({"optimize", "simulator"}),
    frozenset({"schedulers", "history"}),
    frozenset({"controller", "explain", "advise"}),
    frozenset({"service"}),
    frozenset({"experiments"}),
    frozenset({"cli"}),
)

#: What has no storey: it needs pytest, so no other room imports it.
BESIDE = {"testing": frozenset({"model", "perflog", "formats", "schedulers"})}

#: Modules that belong to no room.
NO_ROOM = {path.stem for path in ROOT.glob("*.py")} - {"__init__", "__main__"}

#: Room → rooms that it may import; its own and the modules of no room everyone may.
MAY_IMPORT = {
    room: frozenset().union(*STOREYS[:rank]) for rank, storey in enumerate(STOREYS) for room in storey
} | BESIDE

#: Rooms of Spark.
ON_SPARK = {"pipeline", "history"}


@cache
def imports() -> dict[Path, tuple[set[str], set[str]]]:
    """Of each module by its path: what it imports, and what of that at once.

    All modules are looked at in one test: an item for each, in every process, takes longer than the reading.
    """
    modules = {
        path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in ROOT.rglob("*.py")
    }
    return {place: (imported(module), at_import(module)) for place, module in modules.items()}


def imported(module: ast.Module) -> set[str]:
    """Full names of what a module imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def may_import(place: Path) -> frozenset[str]:
    """Rooms that a module may import; what belongs to no room imports none."""
    if len(place.parts) == 1:
        return frozenset({"cli"} if place.name == "__main__.py" else NO_ROOM)
    room = place.parts[0]
    return MAY_IMPORT[room] | {room, "__version__"} | NO_ROOM


def test_rooms_import_only_what_they_may():
    wrong = {}
    for place, (everything, _) in imports().items():
        ours = {name.split(".")[1] for name in everything if name.startswith("stormwright.")}
        if more := ours - may_import(place):
            wrong[str(place)] = sorted(more)
    assert wrong == {}


def test_every_room_has_a_rule():
    assert set(MAY_IMPORT) == EVERYTHING


def at_import(module: ast.Module) -> set[str]:
    """Modules that are imported at once."""
    found: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_only_rooms_of_spark_touch_it_when_they_are_imported():
    """Others may start Spark through it, inside a function."""
    others = {place: at_once for place, (_, at_once) in imports().items() if place.parts[0] not in ON_SPARK}
    assert len(others) > 500
    assert [place for place, at_once in others.items() if "pyspark" in {name.split(".")[0] for name in at_once}] == []


@pytest.mark.parametrize(
    "statement",
    [
        "import stormwright",
        "import stormwright.model, stormwright.formats, stormwright.schedulers",
        "import stormwright.cli",
        "import stormwright.cli.schedule",
        "import stormwright.cli.compare, stormwright.cli.explain, stormwright.cli.schedulers",
        "import stormwright.workbench.comparison, stormwright.explain.explain",
        "from stormwright.schedulers import make_scheduler; make_scheduler('online'); make_scheduler('even')",
    ],
)
def test_neither_spark_nor_a_web_framework_comes_along(statement):
    check = (
        f"{statement}\n"
        "import sys\n"
        "heavy = {'pyspark', 'pandas', 'starlette', 'uvicorn', 'jinja2', 'matplotlib', 'pytest', 'hypothesis'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-W", "error", "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_package_itself_imports_nothing():
    check = "import sys; before = set(sys.modules); import stormwright; print(sorted(set(sys.modules) - before))"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['stormwright']"


def test_reading_a_problem_and_placing_it_evenly_imports_only_what_it_needs():
    case = Path(__file__).parent / "cases" / "placement" / "s01_excl18_n5.json.gz"
    check = (
        "import sys\n"
        "from stormwright.cli import run\n"
        "assert not run(['schedule', sys.argv[1], '--scheduler', 'even'])\n"
        "print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", check, case], capture_output=True, text=True, check=True)
    others = {
        *("numba", "scipy", "rich", "numpy.ma"),
        "stormwright.formats.files.archives",
        "stormwright.formats.storm.submission",
        "stormwright.schedulers.toolkit.describe",
    }
    assert others & set(result.stdout.splitlines()[-1].split()) == set(), "it is to answer within half a second"


def test_no_checks_of_documents_are_made_before_there_is_one():
    check = (
        "import stormwright.cli.schedule\n"
        "from stormwright.formats.document.documents import Document\n"
        "print([kind.__name__ for kind in Document.__subclasses__() if kind.__pydantic_complete__])"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
