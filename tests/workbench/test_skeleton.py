"""The skeleton of a package is a package: it installs, stormwright finds it, and its tests pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stormwright
from stormwright.errors import InputError
from stormwright.schedulers.toolkit import registry
from stormwright.workbench.scheduler_template import write_skeleton

#: Few examples: the contract itself is tested elsewhere, here only that it runs.
FEW = """from hypothesis import settings
settings.register_profile("few", max_examples=4)
settings.load_profile("few")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A generated package, installed into a directory of its own: the package, and the environment that finds it."""
    place = tmp_path_factory.mktemp("skeleton")
    written = write_skeleton("crowd_shy2", place)
    root, target = written[0].parent, place / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(target), str(Path(stormwright.__file__).parents[1])]),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    subprocess.run([*pip, "--target", target, root], check=True, env=environment)
    return root, environment


@pytest.mark.slow
def test_its_own_tests_pass(installed):
    root, environment = installed
    (root / "tests" / "conftest.py").write_text(FEW, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-W", "error", "-p", "no:cacheprovider", root],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed" in result.stdout
    reasons = re.findall(r"^SKIPPED \[\d+\] \S+ (.*)$", result.stdout, re.MULTILINE)
    promises = ("it does not promise", "it may", "it takes", "what is moved first", "among equal nodes")
    assert [reason for reason in reasons if not reason.startswith(promises)] == []


@pytest.mark.long
def test_generated_scheduler_is_found_by_command_line(installed):
    _, environment = installed
    program = [sys.executable, "-c", "from stormwright.cli import main; main()", "schedulers", "crowd_shy2", "--all"]
    out = subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout
    assert out.startswith("crowd_shy2: Puts every executor ")
    assert "own_weight=2.0  (number at least 0)" in out
    assert "Class: stormwright_crowd_shy2:CrowdShy2Scheduler" in out


def test_its_code_keeps_to_the_style(installed):
    root, _ = installed
    ruff, code = [sys.executable, "-m", "ruff"], [root / "src", root / "tests" / "test_crowd_shy2.py"]
    subprocess.run([*ruff, "format", "--check", "--line-length", "120", *code], check=True)
    subprocess.run([*ruff, "check", "--line-length", "120", "--select", "E,F,N,UP,B", *code], check=True)
    lines = (root / "src" / "stormwright_crowd_shy2" / "__init__.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 60


@pytest.mark.parametrize("name", ["", "Mine", "1st", "a-b", "a__b", "_a", "a_", "../a"])
def test_invalid_scheduler_names_are_rejected(tmp_path, name):
    with pytest.raises(InputError, match="should be a name of lower-case letters"):
        write_skeleton(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_python_keyword_is_rejected_as_scheduler_name(tmp_path):
    with pytest.raises(InputError, match="class: is a Python keyword; choose another name"):
        write_skeleton("class", tmp_path)


@pytest.mark.parametrize("name", list(registry.SCHEDULERS)[:2])
def test_existing_scheduler_names_are_rejected(tmp_path, name):
    with pytest.raises(InputError, match="a scheduler of this name exists; choose another name"):
        write_skeleton(name, tmp_path)


@pytest.mark.parametrize("name", ["all", "java"])
def test_reserved_scheduler_names_are_rejected(tmp_path, name):
    with pytest.raises(InputError, match=f"{name}: has another meaning"):
        write_skeleton(name, tmp_path)


def test_skeleton_readme_names_package_source(tmp_path):
    readme = write_skeleton("mine", tmp_path)[1].read_text(encoding="utf-8")
    assert "pip install 'STORMWRIGHT[testing]'" in readme
    assert "$" not in readme


def test_nothing_is_overwritten(tmp_path):
    write_skeleton("mine", tmp_path)
    with pytest.raises(InputError, match="exists already"):
        write_skeleton("mine", tmp_path)
