"""Locations of tables: directories of this machine, or URIs of any Hadoop file system."""

from __future__ import annotations

import re
from pathlib import Path

from stormwright.errors import Fault, InputError

#: A path, or a URI as text (a `Path` would make ``hdfs:/host`` of ``hdfs://host``).
Location = Path | str

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def is_uri(location: Location) -> bool:
    """Return whether a location is a URI that Spark accesses rather than this process."""
    return isinstance(location, str) and _URI.match(location) is not None


def address(location: Location) -> str:
    """Return the location for Spark: a URI unchanged, a path as absolute path."""
    return str(location) if is_uri(location) else str(Path(location).absolute())


def inside(location: Location, name: str) -> Location:
    """Return the location of `name` in a directory."""
    return f"{str(location).rstrip('/')}/{name}" if is_uri(location) else Path(location) / name


def local_path(location: Location, what: str) -> Path:
    """Return a local directory.

    Raises
    ------
    InputError
        The location is a URI; `what` names it in the message.
    """
    if _URI.match(str(location)):
        raise InputError(
            what, [Fault("has to be a path on this machine: this process writes it, not Spark", str(location))]
        )
    return Path(location)
