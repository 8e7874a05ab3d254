"""Flux files as Flux reads them: ``${…}`` substituted, includes merged, one topology.

After FluxParser of Storm 2.8.3, with its surprising behaviour: one property a line (the last one), includes of
included files ignored, of two things with one id the one that `override` selects, streams always added.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from stormwright.base.escaping import cut
from stormwright.errors import InputError
from stormwright.formats.document.documents import FormatDocument
from stormwright.formats.document.faults import FaultList, join_path, shown
from stormwright.formats.files.yaml_files import read_yaml
from stormwright.formats.storm.conf import Layer


def _text(value: object) -> object:
    """Return any scalar as text, as SnakeYAML does where a text is required."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and (unfilled := next(filter(None, map(_first_property, value.split("\n"))), None)):
        message = "should be a name, but nothing gives a value to '{name}'"
        raise PydanticCustomError("unfilled", message, {"name": cut(unfilled)})
    return value


def _first_property(line: str) -> str | None:
    """Return the text between the first ``${`` and the last ``}`` of a line."""
    begin, end = line.find("${"), line.rfind("}")
    return line[begin + 2 : end] if 0 <= begin < end - 2 else None


def _number(value: object) -> object:
    """Return a quoted number as a number, as a substituted property often is; after a zero it is octal."""
    if not isinstance(value, str) or not re.fullmatch(r"[+-]?(0|[1-9]\d{0,9}|0[0-7]{1,11})", value):
        return value
    return int(value, 8 if value.lstrip("+-").startswith("0") else 10)


def _flag(value: object) -> object:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


_Text = Annotated[str, Field(min_length=1), BeforeValidator(_text)]

Number = Annotated[int, Field(le=2**31 - 1), BeforeValidator(_number)]

Flag = Annotated[bool, BeforeValidator(_flag)]


class ObjectDocument(FormatDocument):
    """A Java object; its construction is ignored."""

    class_name: _Text = Field(alias="className")
    constructor_args: list[Any] | None = Field(None, alias="constructorArgs")
    properties: list[Any] | None = None
    config_methods: list[dict[str, Any]] | None = Field(None, alias="configMethods")
    factory: str | None = None
    factory_args: list[Any] | None = Field(None, alias="factoryArgs")


class BeanDocument(ObjectDocument):
    """One with an id, that others refer to."""

    id: _Text | None = None


class VertexDocument(BeanDocument):
    """A spout or bolt; loads and tasks below 0 are not given."""

    parallelism: Annotated[Number, Field(ge=1)] = 1
    num_tasks: Number = Field(-1, alias="numTasks")
    on_heap_memory_load: Number = Field(-1, alias="onHeapMemoryLoad")
    off_heap_memory_load: Number = Field(-1, alias="offHeapMemoryLoad")
    cpu_load: Number = Field(-1, alias="cpuLoad")


class GroupingDocument(FormatDocument):
    """Grouping of a stream: its distribution over the tasks of the subscribed bolt."""

    type: Literal["ALL", "CUSTOM", "DIRECT", "SHUFFLE", "LOCAL_OR_SHUFFLE", "FIELDS", "GLOBAL", "NONE"]
    stream_id: _Text | None = Field(None, alias="streamId")
    args: list[_Text] | None = None
    custom_class: ObjectDocument | None = Field(None, alias="customClass")


class StreamDocument(FormatDocument):
    """An edge of the topology."""

    source: _Text = Field(alias="from")
    to: _Text
    grouping: GroupingDocument
    name: Any = None


class IncludeDocument(FormatDocument):
    """Another file whose contents count as if they were here."""

    file: _Text
    resource: Flag = False
    override: Flag = False


class FluxDocument(FormatDocument):
    """A whole file."""

    name: _Text | None = None
    config: dict[str, Any] | None = None
    includes: Any = None
    components: Any = None
    spouts: Any = None
    bolts: Any = None
    streams: Any = None
    topology_source: Any = Field(None, alias="topologySource")
    worker_hooks: Any = Field(None, alias="workerHooks")


#: Pattern of an item of a list at the end of a name.
_ITEM = re.compile(r"\[(\d+)\]\}")
#: More digits than any list has items.
_MAX_DIGITS = 9
_ENVIRONMENT = "ENV-"
#: Class path directories of Maven and Gradle.
_CLASS_PATHS = frozenset({"resources", "classes"})
_TOPOLOGY_NAME = re.compile(r"[^/.:\\]+")


def _last_property(line: str) -> str | None:
    """Return the text between the last ``${`` that a ``}`` follows and the last ``}``.

    Written by hand: on a long line without any, the regular expression of Flux takes hours.
    """
    end = line.rfind("}")
    begin = line.rfind("${", 0, max(end - 1, 0))
    return line[begin + 2 : end] if begin >= 0 else None


Content = TypeVar("Content", bound=BaseModel)


@dataclass(frozen=True)
class SourceSection(Generic[Content]):
    """Something with its position."""

    content: Content
    faults: FaultList
    path: str

    def fault(self, message: str, *steps: str | int) -> None:
        """Add a fault of the item at `steps` in it."""
        self.faults.add(message, join_path(self.path, *steps))


@dataclass(frozen=True)
class Substitution:
    """Values of ``${…}`` in a file: ``--filter`` and ``--env-filter`` of Flux."""

    properties: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] | None = None

    def __call__(self, text: str) -> str:
        """Return `text` with everything substituted that has a value."""
        return "\n".join(self._line(line) for line in text.splitlines())

    def _line(self, line: str) -> str:
        name = _last_property(line)
        if name is None:
            return line
        of_environment = name.startswith(_ENVIRONMENT) and name != _ENVIRONMENT
        # An item of a list goes before a name that goes on behind it.
        items = [] if of_environment else list(_ITEM.finditer(name + "}", 1))
        if items:
            name, value = name[: items[-1].end() - 1], self._item(name[: items[-1].start()], items[-1][1])
        elif of_environment and self.environment is not None:
            value = self.environment.get(name.removeprefix(_ENVIRONMENT))
        else:
            value = self.properties.get(name)
        return line if value is None else line.replace(f"${{{name}}}", value)

    def _item(self, name: str, index: str) -> str | None:
        items = self.properties.get(name, "")[1:-1].split(",")
        wanted = int(index) if len(index) <= _MAX_DIGITS else len(items)
        return items[wanted].strip()[1:-1] if wanted < len(items) else None


@dataclass
class FluxTopology:
    """A topology with its includes.

    `config` has the layer with precedence in front; `broken` are ids of spouts and bolts that have faults themselves,
    `fed` those that a stream goes to, whether or not that has faults.
    """

    name: str
    config: list[Layer]
    spouts: dict[str, SourceSection[VertexDocument]]
    bolts: dict[str, SourceSection[VertexDocument]]
    streams: list[SourceSection[StreamDocument]]
    broken: set[str]
    fed: set[str]


class FluxReader:
    """Reader of a topology from a file and those it includes; `errors` has the faults of each afterwards.

    Parameters
    ----------
    substitution
        Values for what stands in braces.
    class_path
        Directories and jars with the resources that files include.
    """

    def __init__(self, substitution: Substitution, class_path: Sequence[Path] = ()) -> None:
        self._substitution, self._class_path = substitution, class_path
        self._files: list[tuple[str, FaultList]] = []
        self._unreadable: list[InputError] = []

    @property
    def errors(self) -> list[InputError]:
        """An error for each file that has faults."""
        return [*self._unreadable, *(faults.error(source) for source, faults in self._files if faults)]

    def read(self, path: Path) -> FluxTopology | None:
        """Read the topology in the file at `path`; return None if that or an included one cannot be read."""
        main = self._open(path)
        if main is None:
            return None
        raw, faults = main
        topology = self._topology(raw, faults)
        whole = True
        for item, at in _items(raw, "includes", faults):
            include = faults.parse(IncludeDocument, item, at)
            whole &= include is not None and self._include(topology, include, path, faults, at)
        if not whole:  # what is missing from it would look like faults
            return None
        if isinstance(raw, Mapping) and raw.get("topologySource") is not None:
            faults.add(
                "only Java knows this topology: submit it and import it from Nimbus, or from its stormcode.ser",
                "$.topologySource",
            )
        elif not topology.spouts and not faults and not self.errors:
            faults.add("a topology needs a spout", "$.spouts")
        if not topology.name:
            faults.add("required field missing", "$.name")
        elif not _TOPOLOGY_NAME.fullmatch(topology.name):
            faults.add(f"should have none of the characters / . : \\, got {shown(topology.name)}", "$.name")
        return topology

    def _open(self, path: Path | zipfile.Path) -> tuple[Any, FaultList] | None:
        try:
            raw = read_yaml(path, self._substitution)
        except InputError as error:
            self._unreadable.append(error)
            return None
        faults = FaultList()
        self._files.append((str(path), faults))
        return raw, faults

    @staticmethod
    def _topology(raw: Any, faults: FaultList) -> FluxTopology:
        header = faults.parse(FluxDocument, raw, "$")
        for item, at in _items(raw, "components", faults):
            faults.parse(BeanDocument, item, at)
        for item, at in _items(raw, "workerHooks", faults):
            faults.parse(BeanDocument, item, at)
        # Of two with the same id the later one counts; a bolt without one is fed by no stream, and left out.
        spouts = {located.content.id or "": located for located in _declared(VertexDocument, raw, "spouts", faults)}
        bolts = {each.content.id: each for each in _declared(VertexDocument, raw, "bolts", faults) if each.content.id}
        if "" in spouts:
            spouts.pop("").fault("required field missing", "id")
        config = raw.get("config") if isinstance(raw, Mapping) else None
        for key in ("config", "streams"):
            if isinstance(raw, Mapping) and key in raw and raw[key] is None:
                faults.add("should have a value: Flux fails without", f"$.{key}")
        return FluxTopology(
            name=header.name or "" if header else "unknown",
            config=[Layer(config, faults, "$.config")] if isinstance(config, Mapping) else [],
            spouts=spouts,
            bolts=bolts,
            streams=list(_declared(StreamDocument, raw, "streams", faults)),
            broken=_ids(raw) - spouts.keys() - bolts.keys(),
            fed={str(item.get("to")) for item, _ in _items(raw, "streams", FaultList()) if isinstance(item, Mapping)},
        )

    def _include(
        self, topology: FluxTopology, include: IncludeDocument, including: Path, faults: FaultList, at: str
    ) -> bool:
        path = None if "\0" in include.file else _found(include, including, self._class_path)
        if path is None:
            hint = "; name the jar or directory that has it by --class-path" if include.resource else ""
            faults.add(f"no such file: {shown(include.file)}{hint}", join_path(at, "file"))
            return False
        opened = self._open(path)
        if opened is None:
            return False
        raw, own = opened
        if not isinstance(raw, Mapping):  # any file may be named here: nothing of it is shown
            own.add("is no Flux file: should be an object", "$")
            return False
        other = self._topology(raw, own)
        if other.name and (include.override or not topology.name):
            topology.name = other.name
        if include.override:
            topology.config[:0] = other.config
            topology.spouts.update(other.spouts)
            topology.bolts.update(other.bolts)
        else:
            topology.config += other.config
            topology.spouts = {**other.spouts, **topology.spouts}
            topology.bolts = {**other.bolts, **topology.bolts}
        topology.streams += other.streams
        topology.broken |= other.broken
        topology.fed |= other.fed
        return True


def _items(raw: object, key: str, faults: FaultList) -> Iterator[tuple[object, str]]:
    return faults.items(raw, key, "$") if isinstance(raw, Mapping) and raw.get(key) is not None else iter(())


def _declared(model: type[Content], raw: object, key: str, faults: FaultList) -> Iterator[SourceSection[Content]]:
    for item, at in _items(raw, key, faults):
        content = faults.parse(model, item, at)
        if content is not None:
            yield SourceSection(content, faults, at)


def _ids(raw: object) -> set[str]:
    """Return the ids of all spouts and bolts, valid or not."""
    items = [item for key in ("spouts", "bolts") for item, _ in _items(raw, key, FaultList())]
    return {str(item.get("id")) for item in items if isinstance(item, Mapping)}


def _found(include: IncludeDocument, including: Path, class_path: Sequence[Path]) -> Path | zipfile.Path | None:
    """Return a file by Flux's rule (from the working directory), or beside the one that includes it.

    A resource is on a class path: of those given, or in the including file's directory, and in those above it up to the
    one of a class path (`_CLASS_PATHS`), or in the next one where there is none; in no case outside of these, wherever
    ``..`` or a link leads.
    """
    if not include.resource:
        places = [Path(include.file), including.parent / include.file]
        return next((place for place in places if place.is_file()), None)
    for entry in class_path:
        name = include.file.lstrip("/")
        if entry.is_dir() and _is_inside(entry / name, entry):
            return entry / name
        if entry.is_file() and zipfile.is_zipfile(entry) and (within := zipfile.Path(entry, name)).is_file():
            return within
    directories = including.absolute().parents
    top = next((n for n, directory in enumerate(directories) if directory.name in _CLASS_PATHS), 1)
    for directory in directories[: top + 1]:
        place = directory / include.file.lstrip("/")
        if directory.name and _is_inside(place, directory):
            return place
    return None


def _is_inside(place: Path, directory: Path) -> bool:
    """Return whether a file exists within a directory, wherever links lead."""
    return place.resolve().is_relative_to(directory.resolve()) and place.is_file()
