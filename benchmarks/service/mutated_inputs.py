"""Whether files and messages that are not quite right end in anything but a clear error.

    python -m benchmarks.service.mutated_inputs [--inputs 50000] [--seed 1]

Sound inputs of each kind get up to five mutations: parts that are missing, doubled, exchanged, of another type or
beyond all measure, and now and then torn bytes. Each is read as the command line, the service or the pipeline reads it;
a problem that is accepted is placed, too. Everything but success and `StormwrightError` is a fault.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.kit.results import write_results
from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.formats import problem_to_dict
from stormwright.formats.files.problem_files import read_problem
from stormwright.formats.nimbus_snapshot import SnapshotReader
from stormwright.formats.storm.conf import StormConf
from stormwright.formats.storm.flux import read_flux
from stormwright.formats.storm.storm_yaml import cluster_conf, read_nimbus_yaml, supervisors_of
from stormwright.perflog.records import RejectedLine, parse
from stormwright.perflog.schema import sample_record
from stormwright.schedulers import make_scheduler
from tests.controller.builders import on, problem, topology
from tests.formats.wire.test_snapshot_reader import as_nimbus_sends, question

#: Code that the page measures.
MEASURES = ("src/stormwright/formats", "src/stormwright/perflog")

#: Flux files that need nothing else.
FLUX_FILES = ("orders.yaml", "stateful.yaml")
FLUX = Path(__file__).parents[2] / "tests" / "formats" / "storm" / "flux"

#: Values that are seldom meant.
_HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**31, 2**63, -(2**70), 1e308, 0.1, float("nan"), float("inf"), "", " ", "a" * 5000),
    *("\x00", "\u2028", "999999999999", "-1", "NaN", "true", "topology.workers", [], {}, [[]], [None], {"": {}}),
    *([0] * 300, {str(key): key for key in range(300)}),
)
_DEEP = 150

#: Part of the inputs whose bytes are torn, and the most mutations of the others.
_TORN, _MOST = 0.15, 5

_EVEN = make_scheduler("even")


@dataclass(frozen=True)
class Kind:
    """A kind of input: sound ones, how they are written, and what reads a file of it."""

    sound: list[Any]
    write: Callable[[Any], bytes]
    read: Callable[[Path], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=50_000, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311 (no secret)
    kinds = known_kinds()
    counts: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in kinds}
    faults: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "input"
        for kind in kinds.values():
            for document in kind.sound:
                path.write_bytes(kind.write(document))
                kind.read(path)
        for number in range(options.inputs):
            name = list(kinds)[number % len(kinds)]
            kind = kinds[name]
            path.write_bytes(mutated(rng, kind))
            try:
                kind.read(path)
            except StormwrightError:
                counts[name]["refused"] += 1
            except Exception as error:
                counts[name]["fault"] += 1
                where = traceback.extract_tb(error.__traceback__)[-1]
                text = f"{name}: {type(error).__name__} in {Path(where.filename).name}:{where.name}: {str(error)[:100]}"
                if faults.setdefault(f"{type(error).__name__} {where.name}", text) is text:
                    print(text, path.read_bytes()[:400], flush=True)
            else:
                counts[name]["accepted"] += 1
    rows = [
        (f"{name}: inputs that end in anything but a clear error", "0", f"{found['fault']}; {_told(found)}")
        for name, found in counts.items()
    ]
    write_results("mutated-inputs", f"{options.inputs:,} inputs that are not quite right", rows, {"faults": faults})


def _told(found: Mapping[str, int]) -> str:
    return ", ".join(f"{found[outcome]:,} {outcome}" for outcome in ("refused", "accepted"))


def known_kinds() -> dict[str, Kind]:
    """Return all kinds by name."""
    first, second = topology("a", workers=2), topology("b", bolts=5)
    ran = problem([first, second], current={first.id: on("n0", "n1")})
    now = problem_to_dict(ran)
    sent = json.loads(json.dumps(as_nimbus_sends(ran)))
    reader = SnapshotReader()
    return {
        "problem files": Kind([now], _json, placed),
        "Nimbus's questions": Kind([sent], _question, lambda path: reader.read(path.read_bytes())),
        "records": Kind([sample_record(), sample_record(optional=False)], _json, parsed),
        "Flux files": Kind([yaml.safe_load(file.read_bytes()) for file in map(FLUX.joinpath, FLUX_FILES)], _yaml, flux),
        "storm.yaml": Kind([storm_yaml()], _yaml, nodes),
    }


def storm_yaml() -> dict[str, Any]:
    """Return a storm.yaml of a supervisor, as operators write it."""
    return {
        "storm.zookeeper.servers": ["z1", "z2"],
        "nimbus.seeds": ["n1"],
        "supervisor.slots.ports": [6700, 6701, 6702],
        "supervisor.cpu.capacity": 400.0,
        "supervisor.memory.capacity.mb": 4096,
        "supervisor.scheduler.meta": {"tags": "gpu,ssd", "stormwright.link": "1gbit"},
        "topology.component.cpu.pcore.percent": 10,
        "topology.workers": 3,
        "storm.local.hostname": "s1",
        "isolation.scheduler.machines": {"a": 1},
    }


def placed(path: Path) -> object:
    """Read a problem and place it."""
    return _EVEN.schedule(read_problem(path))


def parsed(path: Path) -> object:
    """Read a record as the service does."""
    found = parse(path.read_bytes())
    if isinstance(found, RejectedLine):
        raise InputError("records", [Fault(found.reason, "$")])
    return found


def flux(path: Path) -> object:
    """Read a Flux file as the command line does."""
    found, errors = read_flux([path], StormConf(()))
    if errors:
        raise errors[0]
    return found


def nodes(path: Path) -> object:
    """Read a storm.yaml as the command line does."""
    files = read_nimbus_yaml(path)
    return cluster_conf(files), supervisors_of(files)


def mutated(rng: random.Random, kind: Kind) -> bytes:
    """Return an input that is not quite right."""
    document = json.loads(json.dumps(rng.choice(kind.sound)))
    for _ in range(rng.choice((1, 1, 1, _MOST))):
        document = mutate(rng, document)
    data = kind.write(document)
    if rng.random() < _TORN and data:
        torn = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            torn[rng.randrange(len(torn))] = rng.randrange(256)
        data = bytes(torn[: rng.randrange(len(torn)) + 1])
    return data


def mutate(rng: random.Random, value: Any) -> Any:
    """Return a document with one mutation somewhere."""
    children = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if children and rng.random() < 0.85:
        child = rng.choice(children)
        match rng.randrange(8):
            case 0:
                del value[child]
            case 1 if isinstance(value, list):
                value.insert(rng.randrange(len(value) + 1), value[child])
            case 2 if isinstance(value, dict):
                value[rng.choice(("", "id", "conf", f"{child}x"))] = value.pop(child)
            case 3:
                other = rng.choice(children)
                value[child], value[other] = value[other], value[child]
            case _:
                value[child] = mutate(rng, value[child])
        return value
    if rng.random() < 0.02:
        for _ in range(_DEEP):
            value = [value]
        return value
    if isinstance(value, int | float) and rng.random() < 0.5:
        return rng.choice((value + 1, value - 1, -value, value * 1000, value / 3, str(value)))
    return json.loads(json.dumps(rng.choice(_HOSTILE)))


def _json(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _question(document: Any) -> bytes:
    """Return a question as Nimbus writes it, in lines, as long as it has the lists for that."""
    try:
        return question(document)
    except (KeyError, TypeError, AttributeError, ValueError):
        return _json({"problem": document})


def _yaml(document: Any) -> bytes:
    return yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass")


if __name__ == "__main__":
    main()
