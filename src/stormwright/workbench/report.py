"""Reports: self-contained HTML pages with figures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from stormwright.errors import MissingDependencyError
from stormwright.formats.files.json_files import write_bytes
from stormwright.model.humanize import counted

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure


def blank_figure(width: float, height: float) -> Figure:
    """Return an empty figure; sizes in inches.

    Raises
    ------
    MissingDependencyError
        Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("the report needs matplotlib: pip install 'stormwright[report]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def svg_of(figure: Figure) -> str:
    """Return a figure as SVG for an HTML page, without XML declaration and document type."""
    image = io.StringIO()
    figure.savefig(image, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return image.getvalue()[image.getvalue().index("<svg") :]


def write_report(path: Path, template: str, package: str = "stormwright.workbench", **content: object) -> None:
    """Render a template to one self-contained file; parent directories are created.

    Parameters
    ----------
    path
        File to write, replaced as a whole.
    template, package
        Name of the template, and the package that has it among its ``templates``.
    content
        Values for the template.

    Raises
    ------
    InputError
        The file cannot be written; an existing one is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, _environment(package).get_template(template).render(**content).encode(errors="backslashreplace"))


def check_report() -> None:
    """Raise before the work if `write_report` would fail after it.

    Raises
    ------
    MissingDependencyError
        The template engine is not installed.
    """
    _environment()


def _environment(package: str = "stormwright.workbench") -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingDependencyError("the report needs jinja2: pip install 'stormwright[report]'") from error
    loader = PackageLoader(package, "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["counted"] = counted
    return made
