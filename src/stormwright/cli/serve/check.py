"""``stormwright serve --check``: check the configuration without starting anything."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stormwright.base.file_lock import exclusive_lock
from stormwright.cli.kafka import answering, topic_of
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.cli.serve.pair import found, pair_of
from stormwright.cli.serve.prepare import prepared
from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.model.humanize import counted, listed

_Part = TypeVar("_Part")

#: Exit code where something is wrong.
WRONG = 2

#: Name of a part, and its check, which returns a finding or raises.
Try = tuple[str, Callable[[], str]]


def tried(values: Mapping[str, Any], lock: str, log_format: str = "text") -> int:
    """Try each part, print a line for each, and return the exit code.

    Parameters
    ----------
    values
        Parameters of the verb by name.
    lock
        File in the state directory that a running service holds.
    log_format
        ``text``, or ``json`` for a JSON object in each line.
    """
    real: Sequence[Try] = (
        ("jar", lambda: _jar(values["storm_home"])),
        ("Nimbus", lambda: _nimbus(values["storm_home"])),
    )
    tries: Sequence[Try] = (
        ("configuration", lambda: _configuration(values)),
        *(() if values["simulated"] else real),
        ("address", lambda: _address(values["host"], values["port"])),
        ("state", lambda: _state(values["state_dir"], lock)),
        *((("pair", lambda: found(_required(pair_of, values))),) if values["pair"] else ()),
        *((("Kafka", lambda: answering(_required(topic_of, values))),) if _has_topic(values) else ()),
    )
    code = 0
    for name, attempt in tries:
        for is_ok, text in _found(attempt):
            if log_format == "json":
                print_json({"part": name, "ok": is_ok, "found": text})
            else:
                say(f"{'ok' if is_ok else 'wrong':<7} {name}: {text}")
            code = code if is_ok else WRONG
    return code


def _has_topic(values: Mapping[str, Any]) -> bool:
    """Return whether there is a valid topic; the part ``configuration`` reports the faults of another."""
    faults: list[Fault] = []
    return topic_of(values, faults) is not None and not faults


def _found(attempt: Callable[[], str]) -> Iterator[tuple[bool, str]]:
    """Yield whether a part is valid, with its findings."""
    try:
        yield True, attempt()
    except InputError as error:
        for fault in error.faults:
            yield False, str(fault)
    except StormwrightError as error:
        yield False, str(error)
    except OSError as error:
        yield False, f"{error.filename or ''}: {error.strerror or error}"


def _configuration(values: Mapping[str, Any]) -> str:
    made = prepared(values)
    where = f"Storm in {values['storm_home']}"
    if made.cluster:
        where = f"a virtual cluster of {values['simulated']}, simulated by {made.cluster.engine.description}"
    return f"scheduler {made.name}, objective {made.settings.objective}, {where}"


def _jar(storm_home: Path) -> str:
    """Check the jar of the gateway, which may be in another place than that of Nimbus."""
    from stormwright.storm.jvm import STORMWRIGHT_JAR

    there = storm_home / "extlib-daemon" / STORMWRIGHT_JAR.name
    if not there.is_file():
        what = f"is missing: run `stormwright install {storm_home}`, here and on every Nimbus host"
        raise InputError("--storm-home", [Fault(what, str(there))])
    return str(there)


def _nimbus(storm_home: Path) -> str:
    from stormwright.cli.storm_yaml import nimbus_of, path_of, storm_yaml
    from stormwright.storm.gateway import NimbusGateway, gateway_command

    where, path = nimbus_of(storm_yaml(storm_home) or {}), path_of(storm_home)
    if not path.exists():
        remedy = "whatever answers there may be another cluster; write nimbus.seeds to this file"
        raise InputError(
            "--storm-home", [Fault(f"is missing, so Nimbus is looked for at {where}: {remedy}", str(path))]
        )
    with NimbusGateway(gateway_command(storm_home)) as nimbus:
        answered = nimbus.cluster()
    counts = (counted(len(answered.get(each) or ()), each[:-1]) for each in ("supervisors",))
    topologies = counted(len(answered.get("topologies") or ()), "topology")
    return f"{where} answers, with {', '.join(counts)} and {topologies}"


def _required(part_of: Callable[[Mapping[str, Any], list[Fault]], _Part | None], values: Mapping[str, Any]) -> _Part:
    """Return a part of the settings, which the values have."""
    faults: list[Fault] = []
    part = part_of(values, faults)
    if part is None or faults:
        raise InputError("serve", faults)
    return part


def _address(host: str, port: int) -> str:
    from stormwright.service.http.server import cannot_listen

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind((host, port))
            free.listen(1)
        except (OSError, UnicodeError) as error:
            raise InputError("serve", [Fault(cannot_listen(error), f"{host}:{port}")]) from error
    return f"{host}:{port} is free"


def _state(directory: Path, lock: str) -> str:
    """Check the state directory and its database; nothing is changed."""
    from stormwright.service.storage.damage import check_database
    from stormwright.service.storage.database import FILE

    if not directory.exists():
        parent = next(each for each in directory.absolute().parents if each.exists())
        try:
            with tempfile.TemporaryDirectory(dir=parent):  # permissions do not tell, such as root's in /proc
                return f"{directory} will be made"
        except OSError as error:
            why = f"cannot be made in {parent} ({error.strerror}): name another --state, or let this user write there"
            raise InputError("--state", [Fault(why, str(directory))]) from error
    try:
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        why = f"cannot be written to ({error.strerror}): name another --state, or let this user write there"
        raise InputError("--state", [Fault(why, str(directory))]) from error
    damaged = check_database(directory / FILE) if (directory / FILE).exists() else []
    if (directory / lock).exists():
        with exclusive_lock(
            directory, f"{directory}: another service uses it: stop that, or name another --state", lock
        ):
            pass
    text = f"{directory} can be written to, and no service uses it"
    return f"{text}; rows that earlier starts have set aside as damaged: {listed(damaged)}" if damaged else text
