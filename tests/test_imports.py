"""Which package may import which, no import cycles, and what `import stormwright` may load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import stormwright

ROOT = Path(stormwright.__file__).parent

EVERYTHING = frozenset(path.name for path in ROOT.iterdir() if path.is_dir() and any(path.rglob("*.py"))) - {"base"}

#: Packages from the foundation up: each imports those in lower layers and itself, none in its own layer.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"model", "perflog", "jit"}),
    frozenset({"formats", "plans"}),
    frozenset({"client", "storm", "pipeline", "predict"}),
    frozenset({"optimize", "simulator"}),
    frozenset({"schedulers", "history"}),
    frozenset({"controller", "explain", "advise"}),
    frozenset({"service"}),
    frozenset({"workbench"}),
    frozenset({"cli"}),
)

#: Outside the layers: it needs pytest, so no other package imports it.
BESIDE = {"testing": frozenset({"model", "perflog", "formats", "schedulers"})}

#: The public API at the top of the package: above `workbench`, imported by no package.
API = frozenset({"api", "datasets"})

#: Modules at the top of the package, and `base`, that every package may import.
UTILITIES = {path.stem for path in ROOT.glob("*.py")} - {"__init__", "__main__"} - API | {"base"}

#: Package → packages that it may import besides itself and the utilities.
MAY_IMPORT = {
    package: frozenset().union(*LAYERS[:rank]) for rank, layer in enumerate(LAYERS) for package in layer
} | BESIDE

#: Packages that import PySpark at the top of their modules.
ON_SPARK = {"pipeline", "history"}


@cache
def imports() -> dict[Path, tuple[set[str], set[str]]]:
    """Module path → names that it imports anywhere, and names that it imports at the top.

    One test reads all modules: a test item for each takes longer than the reading.
    """
    modules = {
        path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in ROOT.rglob("*.py")
    }
    return {place: (imported(module), at_import(module)) for place, module in modules.items()}


def imported(module: ast.Module) -> set[str]:
    """Return the full names that a module imports, at the top or inside functions."""
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
    """Return the packages that a module may import; utilities import each other only."""
    if len(place.parts) == 1 or place.parts[0] == "base":
        below = frozenset().union(*LAYERS[:-1])
        own = {"__main__": {"cli"}, **dict.fromkeys(API, below), "__init__": API | below}
        return frozenset(own.get(place.stem, set())) | UTILITIES
    package = place.parts[0]
    return MAY_IMPORT[package] | {package, "__version__"} | UTILITIES


def test_packages_import_only_lower_layers():
    wrong = {}
    for place, (everything, _) in imports().items():
        ours = {name.split(".")[1] for name in everything if name.startswith("stormwright.")}
        if more := ours - may_import(place):
            wrong[str(place)] = sorted(more)
    assert wrong == {}


def test_product_imports_nothing_of_the_laboratory():
    """Which is another distribution: verbs find it by entry points."""
    names = {name for everything, _ in imports().values() for name in everything}
    assert [name for name in names if name.startswith("stormwright_lab")] == []


#: Places in which ``rebalance`` is called: that of moves, and stand-ins for Nimbus that pass it on to another one.
CALLS_REBALANCE = {"controller/move.py", "service/leader_election/leadership.py"}


def test_only_a_step_of_a_plan_rebalances_a_topology():
    calls = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "rebalance"
    }
    assert calls == CALLS_REBALANCE


def test_every_package_has_a_layer():
    assert set(MAY_IMPORT) == EVERYTHING


@pytest.mark.slow
def test_modules_have_no_circular_imports():
    """Imports for typing and inside functions count: a cycle cannot be read from top to bottom."""
    modules = {_dotted(place) for place in imports()}
    graph = {
        _dotted(place): {_module_of(name, modules) for name in everything if name.startswith("stormwright.")}
        for place, (everything, _) in imports().items()
    }
    assert list(_cycles({module: targets - {module, ""} for module, targets in graph.items()})) == []


def _dotted(place: Path) -> str:
    return ".".join(("stormwright", *place.with_suffix("").parts)).removesuffix(".__init__")


def _module_of(name: str, modules: set[str]) -> str:
    """Return the module that an imported name is, or is in; empty for the package itself."""
    found = name if name in modules else name.rpartition(".")[0]
    return "" if found == "stormwright" else found


def _cycles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield the modules that are left once those without imports or importers are peeled off."""
    left = {module: set(targets) for module, targets in graph.items()}
    while done := [module for module, targets in left.items() if not targets & left.keys()]:
        for module in done:
            del left[module]
    while done := [module for module in left if not any(module in targets for targets in left.values())]:
        for module in done:
            del left[module]
    if left:
        yield sorted(left)


def at_import(module: ast.Module) -> set[str]:
    """Return the modules that are imported at the top of a module."""
    found: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_only_spark_packages_import_pyspark_at_the_top():
    """Other packages may import PySpark inside a function."""
    others = {place: at_once for place, (_, at_once) in imports().items() if place.parts[0] not in ON_SPARK}
    assert len(others) > 500
    assert [place for place, at_once in others.items() if "pyspark" in {name.split(".")[0] for name in at_once}] == []


@pytest.mark.slow
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
        "import stormwright as sw; repr(sw.compare(sw.sketch('a 1 -> b 2'), 'even')), sw.simulate, sw.sweep, sw.advise",
    ],
)
def test_import_loads_no_spark_or_web_framework(statement):
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


def test_simulator_package_loads_no_machine_code():
    check = "import sys, stormwright.simulator; print('numba' in sys.modules or 'numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_schedule_command_imports_only_required_modules():
    case = Path(__file__).parent / "cases" / "placement" / "s01_excl18_n5.json.gz"
    check = (
        "import sys\n"
        "from stormwright.cli import run\n"
        "assert not run(['schedule', sys.argv[1], '--scheduler', 'even'])\n"
        "print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", check, case], capture_output=True, text=True, check=True)
    others = {
        *("numba", "rich"),
        "stormwright.formats.files.archives",
        "stormwright.formats.storm.submission",
        "stormwright.schedulers.toolkit.describe",
    }
    assert others & set(result.stdout.splitlines()[-1].split()) == set(), (
        "it is to answer within a second; the prediction takes SciPy's sparse arrays"
    )


def test_document_validators_are_built_only_on_demand():
    check = (
        "import stormwright.cli.schedule\n"
        "from stormwright.formats.document.documents import FormatDocument\n"
        "print([kind.__name__ for kind in FormatDocument.__subclasses__() if kind.__pydantic_complete__])"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
