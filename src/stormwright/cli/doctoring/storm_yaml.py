"""The storm.yaml of an installation, where it can be read, and where Nimbus is by it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stormwright.errors import InputError

#: Of Storm's defaults.yaml.
NIMBUS_PORT, MONITOR_S = 6627, 10


def path_of(storm_home: Path) -> Path:
    """Where Storm's own programs read it."""
    return Path(os.environ.get("STORM_CONF_DIR") or storm_home / "conf") / "storm.yaml"


def storm_yaml(storm_home: Path) -> Mapping[str, Any] | None:
    """What it says; None where it cannot be read, or nothing here can read YAML."""
    from stormwright.formats.files.yaml_files import read_yaml

    try:
        values = read_yaml(path_of(storm_home))
    except (InputError, ModuleNotFoundError):
        return None
    return values if isinstance(values, Mapping) else {}


def seeds_of(conf: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Host and port of each Nimbus."""
    seeds, port = conf.get("nimbus.seeds", ["localhost"]), conf.get("nimbus.thrift.port", NIMBUS_PORT)
    if not isinstance(seeds, list) or type(port) is not int:
        return []
    return [(str(seed), port) for seed in seeds]


def nimbus_of(conf: Mapping[str, Any]) -> str:
    """The same for people."""
    return " ".join(f"{host}:{port}" for host, port in seeds_of(conf)) or "unknown"
