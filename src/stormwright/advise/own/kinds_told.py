"""Kinds of nodes as people write them: on the command line, and in a small file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from stormwright.advise.own.kinds import NodeKind
from stormwright.errors import Fault, InputError
from stormwright.formats import read_json
from stormwright.link_speed import link_bits_per_s
from stormwright.model import Supervisor
from stormwright.model.requests import CPU

_NAME = re.compile(r"[\w.+-]{1,64}")

#: Slots of a node for which nobody says how many, and the first of their ports.
_SLOTS, _FIRST_PORT = 4, 6700

#: Fields of a kind: the least and the most that each may be, and whether it has to be there.
_FIELDS: Mapping[str, tuple[float, float, bool]] = {
    "core_mhz": (1, 1e6, True),
    "cores": (0.01, 1e4, True),
    "memory_mb": (1, 1e9, True),
    "price": (1e-9, 1e9, True),
    "slots": (1, 1000, False),
    "most": (1, 1000, False),
}
_WHOLE = ("slots", "most")


def kind_told(text: str, faults: list[Fault]) -> NodeKind | None:
    """A kind written as ``NAME=CORE_MHZ:CORES:MEMORY_MB:PRICE``; what is wrong is added to `faults`."""
    name, _, rest = text.partition("=")
    parts = rest.split(":")
    if not _NAME.fullmatch(name) or len(parts) != 4:
        message = f"should be NAME=CORE_MHZ:CORES:MEMORY_MB:PRICE, as in large=3000:8:32768:0.40; got {text}"
        faults.append(Fault(message, "--node-kind"))
        return None
    values: dict[str, object] = {}
    for field, part in zip(_FIELDS, parts, strict=False):
        try:
            values[field] = float(part)
        except ValueError:
            values[field] = part
    return _kind(name, values, f"--node-kind {name}", faults)


def read_kinds(path: Path) -> tuple[NodeKind, ...]:
    """Kinds in a file: TOML where its name ends with ``.toml``, else JSON.

    By name each has ``core_mhz``, ``cores``, ``memory_mb`` and ``price``, and may have ``slots`` (4), ``link`` (as in
    1gbit) and ``most``, how many can be had.

    Raises
    ------
    InputError
        The file cannot be read or has something else in it; all its faults.
    """
    document = _toml(path) if path.suffix == ".toml" else read_json(path)
    if not isinstance(document, Mapping) or not document:
        message = "should hold kinds of nodes by name, each with core_mhz, cores, memory_mb and price"
        raise InputError(str(path), [Fault(message, "$")])
    faults: list[Fault] = []
    found = []
    for name, values in document.items():
        if not _NAME.fullmatch(name) or not isinstance(values, Mapping):
            message = "should be a kind of nodes: core_mhz, cores, memory_mb, price, and maybe slots, link, most"
            faults.append(Fault(message, f"$.{name}"))
        elif kind := _kind(name, values, f"$.{name}", faults):
            found.append(kind)
    if faults:
        raise InputError(str(path), faults)
    return tuple(found)


def _toml(path: Path) -> object:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), [Fault(f"is no TOML: {error}", "$")]) from error


def _kind(name: str, values: Mapping[str, object], at: str, faults: list[Fault]) -> NodeKind | None:
    before = len(faults)
    known = {**_FIELDS, "link": None}
    faults += [Fault(f"unknown key; there is {', '.join(known)}", f"{at}.{key}") for key in values if key not in known]
    numbers: dict[str, float] = {}
    for field, (least, most, needed) in _FIELDS.items():
        value = values.get(field)
        if value is None:
            faults += [Fault("is missing", f"{at}.{field}")] if needed else []
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            faults.append(Fault(f"should be a number from {least:g} to {most:g}, got {value}", f"{at}.{field}"))
        elif field in _WHOLE and value != int(value):
            faults.append(Fault(f"should be a whole number, got {value:g}", f"{at}.{field}"))
        else:
            numbers[field] = float(value)
    link = values.get("link")
    link_bps = link_bits_per_s(link) if isinstance(link, str) else 0.0
    if link is not None and not link_bps:
        faults.append(Fault(f"should be a speed as in 1gbit or 100mbit, got {link}", f"{at}.link"))
    if len(faults) > before:
        return None
    node = Supervisor(
        id=name,
        host=name,
        ports=tuple(_FIRST_PORT + number for number in range(int(numbers.get("slots", _SLOTS)))),
        cpu_hz=numbers["core_mhz"] * 1e6 * numbers["cores"],
        resources={CPU: 100 * numbers["cores"], "memory.mb": numbers["memory_mb"]},
        link_bps=link_bps or None,
    )
    return NodeKind(name, node, numbers["price"], most=int(numbers["most"]) if "most" in numbers else None)


def twice(kinds: Sequence[NodeKind]) -> list[Fault]:
    """Faults of names that several kinds have."""
    names = [kind.name for kind in kinds]
    return [Fault("is told twice", f"node kind {name}") for name in sorted(set(names)) if names.count(name) > 1]
