"""Extras hold what they name, and errors name the missing one."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from stormwright.cli import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


#: Package → the distributions that bring it.
BROUGHT_BY = packages_distributions()


def plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def brought_by(wanted: Iterable[str]) -> set[str]:
    """Distributions that come with requirements, those of theirs too."""
    found, waiting = set[str](), [Requirement(text) for text in wanted]
    while waiting:
        one = waiting.pop()
        if plain(one.name) in found:
            continue
        found.add(plain(one.name))
        try:
            needs = [Requirement(text) for text in requires(one.name) or ()]
        except PackageNotFoundError:  # an extra that is not installed here
            continue
        waiting += [each for each in needs if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def imported() -> dict[str, set[str]]:
    """Packages of others → the rooms that import them."""
    found: dict[str, set[str]] = {}
    root = ROOT / "src" / "stormwright"
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for package in {name.partition(".")[0] for name in names} - {"stormwright", *sys.stdlib_module_names}:
                found.setdefault(package, set()).add(path.relative_to(root).parts[0])
    return found


@pytest.mark.slow
def test_each_import_is_covered_by_a_dependency_or_its_extra():
    core, extras = brought_by(PROJECT["dependencies"]), PROJECT["optional-dependencies"]
    for package, rooms in imported().items():
        of = {plain(each) for each in BROUGHT_BY[package]}
        if not of & core:
            assert of & brought_by(extras[EXTRAS[package]]), package
        if rooms & {"service"}:
            assert of & (core | brought_by(extras["service"])), package


@pytest.mark.long
def test_each_optional_package_is_mapped_to_its_extra():
    extras = PROJECT["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(extras)
    for package, extra in EXTRAS.items():
        assert {plain(each) for each in BROUGHT_BY[package]} & brought_by(extras[extra]), package


def test_all_version_declarations_agree():
    """Others have it from the package, or say the same."""
    from stormwright import __version__

    assert "version" in PROJECT["dynamic"]
    for name, pattern in (("CITATION.cff", r"^version: (.+)$"), ("java/pom.xml", r"^  <version>(.+)</version>$")):
        assert re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE) == [__version__], name
