"""Log output of ``stormwright serve``: its configuration, then one line per event."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stormwright import __version__
from stormwright.base.escaping import printable

#: Default of `ServiceSettings.mode`.
FIRST_MODE = "observe"


def as_line(record: logging.LogRecord) -> str:
    """Return a log record as one line: time in UTC, level, message."""
    return f"{_at(record)} {record.levelname:<7} {_one_line(record.getMessage())}"


def as_json(record: logging.LogRecord) -> str:
    """Return a log record as a JSON object in one line: ``at``, ``level``, ``from`` (the module) and ``message``."""
    values = {
        "at": _at(record),
        "level": record.levelname.lower(),
        "from": record.name,
        "message": printable(record.getMessage()),
    }
    return json.dumps(values | getattr(record, "fields", {}))


#: Value of ``--log-format`` → format of a record.
SHAPES: Mapping[str, Callable[[logging.LogRecord], str]] = {"text": as_line, "json": as_json}


def beginning(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration of a service before it starts."""
    return {
        "version": __version__,
        "mode": values["mode"] or stored_mode(values["state_dir"]),
        "scheduler": values["scheduler_name"],
        "nimbus": f"virtual, of {values['simulated']}" if values["simulated"] else _nimbus(values["storm_home"]),
        "state": str(values["state_dir"]),
        "address": f"{'https' if values['tls_cert'] else 'http'}://{values['host']}:{values['port']}",
    }


def _nimbus(storm_home: Path) -> str:
    from stormwright.cli.storm_yaml import nimbus_of, storm_yaml

    conf = storm_yaml(storm_home)
    return nimbus_of(conf) if conf is not None else "as in its storm.yaml"


def stored_mode(state_dir: Path) -> str:
    """Return the last mode of a service with this state directory."""
    from stormwright.service.storage.database import FILE

    with suppress(sqlite3.Error, ValueError, KeyError, TypeError):
        uri = f"file:{quote(str((state_dir / FILE).absolute()))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            row = database.execute("SELECT document FROM modes").fetchone()
        return str(json.loads(row[0])["default"])
    return FIRST_MODE


def _at(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())
