"""Template of a package with a custom scheduler."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from shutil import rmtree
from string import Template
from tempfile import mkdtemp

from stormwright import __version__
from stormwright.errors import Fault, InputError
from stormwright.formats.files.json_files import write_bytes
from stormwright.schedulers import scheduler_names
from stormwright.schedulers.toolkit.resolve import RESERVED

_TEMPLATES = files("stormwright.workbench") / "templates" / "scheduler"


def write_skeleton(name: str, directory: Path) -> list[Path]:
    """Write the package of a scheduler called `name` into a new directory below `directory`.

    Returns
    -------
    list of Path
        The files written; the first is in the package's own directory.

    Raises
    ------
    InputError
        The name is none, or taken, the package's directory is there already, or a file cannot be written; then nothing
        is left of it.
    """
    if wrong := _wrong(name):
        raise InputError("new-scheduler", [Fault(wrong, name)])
    distribution = f"stormwright-{name.replace('_', '-')}"
    package = f"stormwright_{name}"
    root = directory / distribution
    if root.exists():
        raise InputError("new-scheduler", [Fault("exists already; choose another --directory or name", str(root))])
    words = {
        "name": name,
        "distribution": distribution,
        "package": package,
        "class_name": "".join(part.capitalize() for part in name.split("_")) + "Scheduler",
        "version": __version__,
    }
    targets = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "src/scheduler.py": f"src/{package}/__init__.py",
        "tests/test_scheduler.py": f"tests/test_{name}.py",
    }
    directory.mkdir(parents=True, exist_ok=True)
    # Half of a package would be in the way of the next try.
    begun = Path(mkdtemp(prefix=f".{distribution}-", dir=directory))
    try:
        for template, target in targets.items():
            path = begun / target
            path.parent.mkdir(parents=True, exist_ok=True)
            text = _TEMPLATES.joinpath(f"{template}.template").read_text(encoding="utf-8")
            write_bytes(path, Template(text).substitute(words).encode())
        begun.chmod((begun / "src").stat().st_mode)  # made for its owner alone, unlike those in it
        begun.rename(root)
    except BaseException:
        rmtree(begun, ignore_errors=True)
        raise
    return [root / target for target in targets.values()]


def _wrong(name: str) -> str | None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        return "should be a name of lower-case letters, digits and single underscores, such as my_scheduler"
    if keyword.iskeyword(name):
        return "is a Python keyword; choose another name"
    if name in RESERVED:
        return "has another meaning in lists of schedulers; choose another name"
    return "a scheduler of this name exists; choose another name" if name in scheduler_names() else None
