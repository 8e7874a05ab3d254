"""The storm.yaml of an installation, where it can be read, and the address of Nimbus by it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stormwright.errors import InputError
from stormwright.storm.jvm import conf_directory

#: Default of ``nimbus.thrift.port`` in Storm's defaults.yaml.
NIMBUS_PORT = 6627


def path_of(storm_home: Path) -> Path:
    """Return the path at which Storm's own programs read storm.yaml."""
    return conf_directory(storm_home) / "storm.yaml"


def storm_yaml(storm_home: Path) -> Mapping[str, Any] | None:
    """Return the contents of storm.yaml; None if it cannot be read."""
    try:
        return read(storm_home)
    except InputError:
        return None


def read(storm_home: Path) -> Mapping[str, Any]:
    """Return the contents of storm.yaml.

    Raises
    ------
    InputError
        It cannot be read, or is not YAML.
    """
    from stormwright.formats.files.yaml_files import read_yaml

    values = read_yaml(path_of(storm_home))
    return values if isinstance(values, Mapping) else {}


def seeds_of(conf: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Host and port of each Nimbus."""
    seeds, port = conf.get("nimbus.seeds", ["localhost"]), conf.get("nimbus.thrift.port", NIMBUS_PORT)
    if not isinstance(seeds, list) or type(port) is not int:
        return []
    return [(str(seed), port) for seed in seeds]


def nimbus_of(conf: Mapping[str, Any]) -> str:
    """Return hosts and ports of Nimbus as text."""
    return " ".join(f"{host}:{port}" for host, port in seeds_of(conf)) or "unknown"
