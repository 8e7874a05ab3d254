"""Installation of our jar and keys into Storm, as changes of files that can be shown before they are made.

Keys are appended to storm.yaml in a marked block. Lines that set the same keys elsewhere are commented out, and are
restored when the block is removed; all other bytes stay as they are. Lines end at a line feed only, as in an editor.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import orjson
import yaml

from stormwright.base.files import write_whole
from stormwright.defaults import BASELINE
from stormwright.errors import Fault, InputError
from stormwright.model.fallback import FALLBACK, PLACEMENT_SCHEDULER, STORM_SCHEDULER
from stormwright.storm.jvm import STORMWRIGHT_JAR

#: Class of the probe, a hook of workers.
PROBE = "stormwright.ExecutorProbe"

#: Key of Storm for the hooks of all tasks, one of which is the probe.
HOOKS = "topology.auto.task.hooks"

#: URL of a service on the same host.
DEFAULT_SERVICE = "http://127.0.0.1:7070"

#: Daemon of a host → the directory of Storm from which it, or its workers, load our jar.
JAR_DIRECTORIES: Mapping[str, str] = {"nimbus": "extlib-daemon", "supervisor": "extlib"}

Daemon = Literal["nimbus", "supervisor"]

_BEGIN, _END = "# BEGIN stormwright install", "# END stormwright install"
_DISABLED = "#stormwright-install# "

_SERVICE = "stormwright.service.url"
_PROBE_SERVICE, _TOKEN_FILE = "stormwright.probe.service.url", "stormwright.token.file"


@dataclass(frozen=True)
class ShortTime:
    """A shorter time than Storm's own, for shorter pauses and recoveries.

    Parameters
    ----------
    value, default
        Proposed value, and Storm's.
    gain, risk
        Effect of the value in ordinary words, and its cost.
    """

    value: int
    default: int
    gain: str
    risk: str


#: Times that `install --short-times` sets, on hosts of Nimbus and of supervisors alike, by key.
SHORT_TIMES: Mapping[str, ShortTime] = {
    "storm.zookeeper.session.timeout": ShortTime(
        10_000,
        20_000,
        "a dead node or Nimbus is known as such after 10 s",
        "one that stands still for 10 s counts as dead; ZooKeeper's tickTime has to be at most 5 s",
    ),
    "supervisor.worker.start.timeout.secs": ShortTime(
        30,
        120,
        "a worker that ends before its first heartbeat starts again after 30 s",
        "one that needs longer to start never runs",
    ),
    "supervisor.monitor.frequency.secs": ShortTime(
        1, 3, "a supervisor looks each second whether a worker has ended or has to", "a little CPU of the supervisor"
    ),
    "supervisor.worker.shutdown.sleep.secs": ShortTime(
        1, 3, "a worker that has to end is killed after 1 s", "bolts have that long for their cleanup"
    ),
    "supervisor.localizer.update.blob.interval.secs": ShortTime(
        2,
        30,
        "a new configuration reaches supervisors within 2 s",
        "a supervisor asks Nimbus that often for each file of its topologies",
    ),
    "task.refresh.poll.secs": ShortTime(
        1, 10, "a worker knows the new addresses of others after 1 s", "it reads the assignment that often"
    ),
}

#: Keys that the block may have.
_OWN_KEYS = (STORM_SCHEDULER, FALLBACK, _SERVICE, HOOKS, _PROBE_SERVICE, _TOKEN_FILE, *SHORT_TIMES)


@dataclass(frozen=True)
class FileChange:
    """A change of one file.

    Parameters
    ----------
    path
        Path of the file to create, replace or delete.
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
        InputError
            The file is no longer as before.
        OSError
            The file or its directory cannot be written.
        """
        if (self.path.read_bytes() if self.path.exists() else None) != self.before:
            fault = Fault("has changed since it was read: run the command again", str(self.path))
            raise InputError("install", [fault])
        if self.after is None:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(exist_ok=True)
        write_whole(self.path, self.after)


@dataclass(frozen=True)
class StormYamlSettings:
    """Settings of storm.yaml on one host; those that are None stay as installed, or are the defaults.

    Parameters
    ----------
    service
        URL of the service, as this host reaches it; of a pair both, separated by a comma.
    daemons
        Daemons that run on this host; by default both.
    token_file
        File with the token of Nimbus or of the probes; by default the service requires none.
    probe_all
        Whether all topologies get the probe, as by default, or only those that name it.
    short_times
        Whether `SHORT_TIMES` are set, by default not; a key that the operator has set stays.
    """

    service: str | None = None
    daemons: Collection[str] | None = None
    token_file: Path | None = None
    probe_all: bool | None = None
    short_times: bool | None = None

    def keys(self, present: Mapping[str, Any], installed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys to set, given those that the operator's part of storm.yaml has, and the block.

        Raises
        ------
        InputError
            The hooks in storm.yaml are no list of class names.
        """
        keys: dict[str, Any] = {}
        service = self.service or installed.get(_SERVICE) or installed.get(_PROBE_SERVICE) or DEFAULT_SERVICE
        if "nimbus" in (self.daemons or JAR_DIRECTORIES):
            previous = present.get(STORM_SCHEDULER)
            keys[STORM_SCHEDULER] = PLACEMENT_SCHEDULER
            keys[_SERVICE] = service
            if FALLBACK not in present:
                own = BASELINE if previous in (None, PLACEMENT_SCHEDULER) else previous
                keys[FALLBACK] = installed.get(FALLBACK, own)
        if (not installed or HOOKS in installed) if self.probe_all is None else self.probe_all:
            hooks = _hooks(present)
            keys[HOOKS] = hooks if PROBE in hooks else [*hooks, PROBE]
            keys[_PROBE_SERVICE] = service
        if token_file := str(self.token_file or "") or installed.get(_TOKEN_FILE):
            keys[_TOKEN_FILE] = token_file
        if not SHORT_TIMES.keys().isdisjoint(installed) if self.short_times is None else self.short_times:
            keys |= {key: each.value for key, each in SHORT_TIMES.items() if key not in present}
        return {key: value for key, value in keys.items() if present.get(key) != value}


def install(storm_home: Path, storm_yaml: Path, settings: StormYamlSettings) -> list[FileChange]:
    """Return the changes that install our jar and keys; none if they are installed.

    Parameters
    ----------
    storm_home
        Root directory of the Storm installation, for the jar.
    storm_yaml
        Configuration file of the installation, to which our keys are added.
    settings
        Values of our keys, and the daemons that run on this host.

    Raises
    ------
    InputError
        It is no Storm installation, this package has no jar, or storm.yaml cannot be read or extended, or its block
        has other keys.
    """
    _require_storm(storm_home)
    if not STORMWRIGHT_JAR.is_file():
        fault = Fault("is missing: run `make setup` in the clone, or install a wheel", str(STORMWRIGHT_JAR))
        raise InputError("install", [fault])
    jar = {STORMWRIGHT_JAR.name: STORMWRIGHT_JAR.read_bytes()}
    changes: list[FileChange] = []
    there = [daemon for daemon, directory in JAR_DIRECTORIES.items() if any(_own_jars(storm_home / directory))]
    settings = replace(settings, daemons=settings.daemons or there or tuple(JAR_DIRECTORIES))
    for daemon in settings.daemons or ():
        changes += _jar_changes(storm_home / JAR_DIRECTORIES[daemon], jar)
    before = _read(storm_yaml)
    changes.append(FileChange(storm_yaml, before, _extended(storm_yaml, before, settings)))
    return [change for change in changes if change.before != change.after]


def unchanged_times(storm_yaml: Path) -> dict[str, Any]:
    """Return those of `SHORT_TIMES` that the operator has set to another value, which `install` leaves.

    Raises
    ------
    InputError
        storm.yaml cannot be read.
    """
    _, present = _parsed(storm_yaml, (_restored(storm_yaml, _read(storm_yaml)) or b"").decode())
    return {key: present[key] for key, each in SHORT_TIMES.items() if present.get(key, each.value) != each.value}


def uninstall(storm_home: Path, storm_yaml: Path) -> list[FileChange]:
    """Return the changes that undo `install`: storm.yaml first, so that it never names a missing class.

    Raises
    ------
    InputError
        It is no Storm installation, or storm.yaml cannot be read, names our classes outside the block, or has other
        keys in it.
    """
    _require_storm(storm_home)
    before = _read(storm_yaml)
    if before is not None and (faults := list(_remaining(storm_yaml, before))):
        raise InputError("uninstall", faults)
    changes = [FileChange(storm_yaml, before, _restored(storm_yaml, before))]
    for directory in JAR_DIRECTORIES.values():
        changes += _jar_changes(storm_home / directory, {})
    return [change for change in changes if change.before != change.after]


def _require_storm(home: Path) -> None:
    jars = [path.name for path in home.glob("lib/storm-*.jar")]
    if not jars:
        fault = Fault("is no Storm installation: there is no lib/storm-….jar in it", str(home))
        raise InputError("STORM_HOME", [fault])
    if old := [name for name in jars if re.match(r"storm-core-[01]\.", name)]:
        raise InputError(
            "STORM_HOME", [Fault(f"is Storm before 2.0 (lib/{old[0]}), which is not supported", str(home))]
        )


def _own_jars(directory: Path) -> list[Path]:
    return sorted(directory.glob("stormwright-storm-*.jar"))


def _jar_changes(directory: Path, wanted: Mapping[str, bytes]) -> list[FileChange]:
    """Jars of ours in a directory, other versions too, become `wanted`."""
    there = {path.name: path.read_bytes() for path in _own_jars(directory)}
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


def _extended(path: Path, before: bytes | None, settings: StormYamlSettings) -> bytes | None:
    """Return storm.yaml with our block in place of an earlier one; see `_restored` on its last line break."""
    restored = _restored(path, before)
    text = (restored or b"").decode()
    root, present = _parsed(path, text)
    keys = settings.keys(present, _installed(path, before))
    if not keys:
        return restored
    end = "\r\n" if "\r\n" in text else "\n"
    is_complete = restored is None or text.endswith("\n")
    lines, indent = _lines(text), ""
    if isinstance(root, yaml.MappingNode):
        replaced = [_disabled(lines, key, value) for key, value in root.value if key.value in keys]
        for number in sorted(set(chain(*replaced))):
            lines[number] = _DISABLED + lines[number]
        indent = " " * root.start_mark.column if root.value else ""
    if lines and not is_complete:
        lines[-1] += end
    block = [_BEGIN, *(indent + line for item in keys.items() for line in _block_lines(*item)), _END]
    extended = "".join(lines) + end.join(block) + (end if is_complete else "")
    try:
        _, result = _parsed(path, extended)
    except InputError:
        result = {}
    if result != {**present, **keys}:
        by_hand = ", ".join(f"{key}: {_written(value)}" for key, value in keys.items())
        raise InputError("storm.yaml", [Fault(f"cannot be extended automatically; add by hand: {by_hand}", str(path))])
    return extended.encode()


def _restored(path: Path, content: bytes | None) -> bytes | None:
    """Return storm.yaml without our block, with the lines that it replaced; None if `install` has created it.

    1. The last line of the block ends with a line break if the line before the block did.
    2. So it does in a new file, but not in one that was empty.
    """
    if content is None:
        return None
    lines = _lines(content.decode())
    begin, end = _block(path, lines)
    if begin < end == len(lines) and not lines[-1].endswith("\n"):  # 1
        line_break = "\r\n" if lines[begin].endswith("\r\n") else "\n"
        lines[begin - 1 : begin] = [lines[begin - 1].removesuffix(line_break)] if begin else []
    elif begin < end == len(lines) and not begin:  # 2
        return None
    return "".join(line.removeprefix(_DISABLED) for line in [*lines[:begin], *lines[end:]]).encode()


def _installed(path: Path, content: bytes | None) -> dict[str, Any]:
    """Return the keys of our block."""
    lines = _lines((content or b"").decode())
    begin, end = _block(path, lines)
    return _parsed(path, "".join(lines[begin:end]))[1]


def _block(path: Path, lines: Sequence[str]) -> tuple[int, int]:
    """Return the first line of our block and that after it; the same without a block.

    Raises
    ------
    InputError
        Its marks are no pair, or it has keys of the operator.
    """
    marks = [number for number, line in enumerate(lines) if line.strip() in (_BEGIN, _END)]
    if not marks:
        return len(lines), len(lines)
    if [lines[number].rstrip() for number in marks] != [_BEGIN, _END]:
        message = f'should have one unindented "{_BEGIN}" before one "{_END}": correct these lines'
        raise InputError("storm.yaml", [Fault(message, f"{path}:{number + 1}") for number in marks])
    begin, end = marks[0], marks[1] + 1
    root, _ = _parsed(path, "".join(lines))
    keys = root.value if isinstance(root, yaml.MappingNode) else []
    numbers = {key.value: _line(lines, key.start_mark) for key, _ in keys if key.value not in _OWN_KEYS}
    if faults := [
        Fault(f"{key} is inside the block of stormwright: move it out of it", f"{path}:{number + 1}")
        for key, number in numbers.items()
        if begin <= number < end
    ]:
        raise InputError("storm.yaml", faults)
    return begin, end


def _remaining(path: Path, content: bytes) -> Iterator[Fault]:
    """Yield a fault for each key outside our block that names a class of our jar."""
    lines = _lines(content.decode())
    begin, end = _block(path, lines)
    lines[begin:end] = ["\n"] * (end - begin)  # so that lines have the same numbers
    lines = [line.removeprefix(_DISABLED) for line in lines]
    root, values = _parsed(path, "".join(lines))
    keys = root.value if isinstance(root, yaml.MappingNode) else []
    for key, _ in keys:
        value = values.get(key.value)
        for name in (PLACEMENT_SCHEDULER, PROBE):
            if value == name or (isinstance(value, list) and name in value):
                message = f"{key.value} names {name}, which is in the jar: remove it there"
                yield Fault(message, f"{path}:{_line(lines, key.start_mark) + 1}")


def _hooks(present: Mapping[str, Any]) -> list[str]:
    hooks = present.get(HOOKS)
    if hooks is None:
        return []
    if not isinstance(hooks, list) or not all(isinstance(hook, str) for hook in hooks):
        raise InputError("storm.yaml", [Fault(f"should be a list of class names, got {hooks!r}", HOOKS)])
    return hooks


def _lines(text: str) -> list[str]:
    """Return lines with their ends."""
    return re.findall(r".*\n|.+", text)


def _line(lines: Sequence[str], mark: yaml.Mark) -> int:
    """Return the number of the line of a mark: YAML has more line breaks than line feeds."""
    return "".join(lines).count("\n", 0, mark.index)


def _parsed(path: Path, text: str) -> tuple[yaml.Node | None, dict[str, Any]]:
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


def _disabled(lines: Sequence[str], key: yaml.Node, value: yaml.Node) -> range:
    """Return the lines of a key and its value, to be commented out."""
    first, last = _line(lines, key.start_mark), _line(lines, value.end_mark)
    begin, end = (
        mark.index - sum(map(len, lines[:at])) for mark, at in ((key.start_mark, first), (value.end_mark, last))
    )
    last = max(first, last - 1 if end <= begin else last)
    while last > first and (not lines[last].strip() or lines[last].lstrip().startswith("#")):
        last -= 1
    return range(first, last + 1)


def _block_lines(key: str, value: object) -> list[str]:
    """Return the lines of a key in our block: a shorter time has its effect and its risk before it."""
    short = SHORT_TIMES.get(key)
    comment = [f"# {short.gain} (Storm: {short.default}); {short.risk}"] if short else []
    return [*comment, f"{key}: {_written(value)}"]


def _written(value: object) -> str:
    return orjson.dumps(value).decode()  # JSON is YAML
