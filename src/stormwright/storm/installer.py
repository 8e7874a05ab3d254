"""Installation of our jar and keys into Storm, as changes of files that can be shown before they are made.

Keys are appended to storm.yaml in a marked block. Lines that set the same keys elsewhere are commented out, and are
restored when the block is removed; all other lines stay as they are.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import yaml

from stormwright.defaults import STORMS_OWN
from stormwright.errors import Fault, InputError
from stormwright.files import write_whole
from stormwright.model.fallback import FALLBACK, PLACEMENT_SCHEDULER, STORM_SCHEDULER
from stormwright.storm.jvm import STORMWRIGHT_JAR

#: Class of the probe, a hook of workers.
PROBE = "stormwright.ExecutorProbe"

#: Daemon of a host → the directory of Storm from which it, or its workers, load our jar.
JAR_DIRECTORIES: Mapping[str, str] = {"nimbus": "extlib-daemon", "supervisor": "extlib"}

Daemon = Literal["nimbus", "supervisor"]

_BEGIN, _END = "# BEGIN stormwright install", "# END stormwright install"
_DISABLED = "#stormwright-install# "


@dataclass(frozen=True)
class FileChange:
    """A change of one file.

    Parameters
    ----------
    path
        The file.
    before, after
        Its content; None if it does not exist.
    """

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def action(self) -> str:
        """``create``, ``replace`` or ``delete``."""
        if self.after is None:
            return "delete"
        return "create" if self.before is None else "replace"

    def difference(self) -> list[str]:
        """Return the changed lines of a text in unified format, or the action and size of a jar."""
        if self.path.suffix == ".jar":
            size = len(self.after or self.before or b"") / 1e3
            return [f"{self.action} {self.path} ({size:,.0f} kB)"]
        before, after = ((content or b"").decode().splitlines() for content in (self.before, self.after))
        return list(difflib.unified_diff(before, after, str(self.path), str(self.path), lineterm="", n=2))

    def apply(self) -> None:
        """Make the change; a partial file is never visible.

        Raises
        ------
        OSError
            The file or its directory cannot be written.
        """
        if self.after is None:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(exist_ok=True)
        write_whole(self.path, self.after)


@dataclass(frozen=True)
class Settings:
    """Settings of storm.yaml on one host.

    Parameters
    ----------
    service
        URL of the service, as this host reaches it; of a pair both, separated by a comma.
    daemons
        Daemons that run on this host.
    token_file
        File with the token of Nimbus or of the probes; None if the service requires none.
    probe_all
        Whether all topologies get the probe, or only those that name it.
    """

    service: str
    daemons: Collection[str] = tuple(JAR_DIRECTORIES)
    token_file: Path | None = None
    probe_all: bool = True

    def keys(self, present: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys to set, given those that storm.yaml has."""
        keys: dict[str, Any] = {}
        if "nimbus" in self.daemons:
            previous = present.get(STORM_SCHEDULER)
            keys[STORM_SCHEDULER] = PLACEMENT_SCHEDULER
            keys["stormwright.service.url"] = self.service
            if FALLBACK not in present:
                keys[FALLBACK] = STORMS_OWN if previous in (None, PLACEMENT_SCHEDULER) else previous
        if self.probe_all:
            hooks = present.get("topology.auto.task.hooks") or []
            keys["topology.auto.task.hooks"] = hooks if PROBE in hooks else [*hooks, PROBE]
            keys["stormwright.probe.service.url"] = self.service
        if self.token_file:
            keys["stormwright.token.file"] = str(self.token_file)
        return {key: value for key, value in keys.items() if present.get(key) != value}


def install(storm_home: Path, storm_yaml: Path, settings: Settings) -> list[FileChange]:
    """Return the changes that install our jar and keys; none if they are installed.

    Parameters
    ----------
    storm_home
        Storm installation.
    storm_yaml
        Its configuration file.
    settings
        Settings to write.

    Raises
    ------
    InputError
        It is no Storm installation, this package has no jar, or storm.yaml cannot be read or extended.
    """
    _require_storm(storm_home)
    if not STORMWRIGHT_JAR.is_file():
        fault = Fault("is missing: run `make setup` in the clone, or install a wheel", str(STORMWRIGHT_JAR))
        raise InputError("install", [fault])
    jar = {STORMWRIGHT_JAR.name: STORMWRIGHT_JAR.read_bytes()}
    changes: list[FileChange] = []
    for daemon, directory in JAR_DIRECTORIES.items():
        if daemon in settings.daemons:
            changes += _jar_changes(storm_home / directory, jar)
    before = _read(storm_yaml)
    changes.append(FileChange(storm_yaml, before, _extended(storm_yaml, before or b"", settings)))
    return [change for change in changes if change.before != change.after]


def uninstall(storm_home: Path, storm_yaml: Path) -> list[FileChange]:
    """Return the changes that undo `install`: storm.yaml first, so that it never names a missing class.

    Raises
    ------
    InputError
        It is no Storm installation, or storm.yaml cannot be read.
    """
    _require_storm(storm_home)
    before = _read(storm_yaml)
    changes = [FileChange(storm_yaml, before, None if before is None else _restored(before))]
    for directory in JAR_DIRECTORIES.values():
        changes += _jar_changes(storm_home / directory, {})
    return [change for change in changes if change.before != change.after]


def _require_storm(home: Path) -> None:
    if not any(home.glob("lib/storm-*.jar")):
        fault = Fault("is no Storm installation: there is no lib/storm-….jar in it", str(home))
        raise InputError("STORM_HOME", [fault])


def _jar_changes(directory: Path, wanted: Mapping[str, bytes]) -> list[FileChange]:
    """Jars of ours in a directory, other versions too, become `wanted`."""
    there = {path.name: path.read_bytes() for path in sorted(directory.glob("stormwright-storm-*.jar"))}
    return [FileChange(directory / name, there.get(name), wanted.get(name)) for name in {**wanted, **there}]


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
        content.decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError("storm.yaml", [Fault(f"cannot be read: {error.strerror}", str(path))]) from error
    except UnicodeDecodeError as error:
        raise InputError("storm.yaml", [Fault(f"is not text in UTF-8: byte {error.start}", str(path))]) from error
    return content


# storm.yaml ---------------------------------------------------------------------------------------


def _extended(path: Path, before: bytes, settings: Settings) -> bytes:
    """Return storm.yaml with our block in place of an earlier one."""
    restored = _restored(before)
    lines = restored.decode().splitlines()
    root, present = _parsed(path, lines)
    keys = settings.keys(present)
    if not keys:
        return restored
    indent = ""
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            if key.value in keys:
                _disable(lines, key, value)
        indent = " " * root.start_mark.column if root.value else ""
    lines += [_BEGIN, *(f"{indent}{key}: {_written(value)}" for key, value in keys.items()), _END]
    try:
        _, result = _parsed(path, lines)
    except InputError:
        result = {}
    if result != {**present, **keys}:
        by_hand = ", ".join(f"{key}: {_written(value)}" for key, value in keys.items())
        raise InputError("storm.yaml", [Fault(f"cannot be extended automatically; add by hand: {by_hand}", str(path))])
    return _joined(lines)


def _restored(content: bytes) -> bytes:
    """Return storm.yaml without our block, with the lines that it replaced."""
    text = content.decode()
    if _BEGIN not in text and _DISABLED not in text:
        return content
    lines: list[str] = []
    is_ours = False
    for line in text.splitlines():
        is_ours = is_ours or line.strip() == _BEGIN
        if not is_ours:
            lines.append(line.removeprefix(_DISABLED))
        is_ours = is_ours and line.strip() != _END
    return _joined(lines)


def _parsed(path: Path, lines: Sequence[str]) -> tuple[yaml.Node | None, dict[str, Any]]:
    text = "".join(f"{line}\n" for line in lines)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        fault = Fault(f"is no valid YAML: {getattr(error, 'problem', None) or error}", place)
        raise InputError("storm.yaml", [fault]) from error
    if values is not None and not isinstance(values, dict):
        raise InputError("storm.yaml", [Fault("is not a mapping of keys to values", str(path))])
    return root, values or {}


def _disable(lines: list[str], key: yaml.Node, value: yaml.Node) -> None:
    """Comment out the lines of a key and its value."""
    first, end = key.start_mark.line, value.end_mark
    last = max(first, end.line - 1 if end.column <= key.start_mark.column else end.line)
    last = min(last, len(lines) - 1)
    while last > first and (not lines[last].strip() or lines[last].lstrip().startswith("#")):
        last -= 1
    for number in range(first, last + 1):
        lines[number] = _DISABLED + lines[number]


def _written(value: object) -> str:
    return orjson.dumps(value).decode()  # JSON is YAML


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
