"""``stormwright docs``: open the documentation."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

import stormwright
from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.errors import NotFoundError

#: Root of a clone, and the pages there: built ones, and their sources.
_CLONE = Path(stormwright.__file__).parents[2]
_BUILT, _SOURCES = Path("build", "site"), Path("docs")

#: Pages in a wheel.
_INSTALLED = Path(stormwright.__file__).with_name("documentation")

_START = "index.html"


@click.command()
@click.option("--print", "only_print", is_flag=True, help="Print the path of the start page; open nothing.")
@options.as_json("Print path and address of the start page as JSON; open nothing.")
def command(only_print: bool, as_json: bool) -> None:
    """It is part of the wheel, and needs no network. In a clone `make site` builds it."""
    page = start_page(_INSTALLED, _CLONE)
    if as_json:
        print_json({"path": str(page), "address": page.as_uri()})
    elif only_print or not webbrowser.open(page.as_uri()):
        say(page)


def start_page(installed: Path, clone: Path) -> Path:
    """Return the start page of the documentation.

    Parameters
    ----------
    installed
        Directory of the pages in an installed wheel.
    clone
        Root of the clone, if this is one.

    Raises
    ------
    NotFoundError
        The documentation was not built.
    """
    for directory in (installed, clone / _BUILT):
        if (directory / _START).is_file():
            return directory / _START
    sources = clone / _SOURCES
    if sources.is_dir():
        raise NotFoundError(f"the documentation is not built: run `make site` in {clone}, or read {sources}")
    raise NotFoundError(f"the documentation is not at {installed}: install a wheel that `make wheel` built")
