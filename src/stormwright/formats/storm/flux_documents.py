"""What a Flux file may hold, as types: a whole file, its objects, vertices and streams.

Values are taken as SnakeYAML hands them to Flux: a number where a text is due becomes one, and the other way round.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from stormwright.escaping import cut
from stormwright.formats.document.documents import Document


def _text(value: object) -> object:
    """SnakeYAML makes a text of any scalar where a text is due."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and (unfilled := next(filter(None, map(_first_property, value.split("\n"))), None)):
        message = "should be a name, but nothing gives a value to '{name}'"
        raise PydanticCustomError("unfilled", message, {"name": cut(unfilled)})
    return value


def _first_property(line: str) -> str | None:
    """What stands between the first ``${`` and the last ``}`` of a line."""
    begin, end = line.find("${"), line.rfind("}")
    return line[begin + 2 : end] if 0 <= begin < end - 2 else None


def _number(value: object) -> object:
    """… and a number of a quoted one, as a filled-in property often is."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,10}", value) else value


def _flag(value: object) -> object:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


_Text = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
Number = Annotated[int, Field(le=2**31 - 1), BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]


class ObjectDocument(Document):
    """A Java object; how it is made matters to nobody here."""

    class_name: _Text = Field(alias="className")
    constructor_args: list[Any] | None = Field(None, alias="constructorArgs")
    properties: list[Any] | None = None
    config_methods: list[dict[str, Any]] | None = Field(None, alias="configMethods")
    factory: str | None = None
    factory_args: list[Any] | None = Field(None, alias="factoryArgs")


class BeanDocument(ObjectDocument):
    """One with an id, that others refer to."""

    id: _Text


class VertexDocument(BeanDocument):
    """A spout or bolt; loads and tasks below 0 are not given."""

    parallelism: Annotated[Number, Field(ge=1)] = 1
    num_tasks: Number = Field(-1, alias="numTasks")
    on_heap_memory_load: Number = Field(-1, alias="onHeapMemoryLoad")
    off_heap_memory_load: Number = Field(-1, alias="offHeapMemoryLoad")
    cpu_load: Number = Field(-1, alias="cpuLoad")


class GroupingDocument(Document):
    """How a stream is spread over the tasks of the bolt that takes it."""

    type: Literal["ALL", "CUSTOM", "DIRECT", "SHUFFLE", "LOCAL_OR_SHUFFLE", "FIELDS", "GLOBAL", "NONE"]
    stream_id: _Text | None = Field(None, alias="streamId")
    args: list[_Text] | None = None
    custom_class: ObjectDocument | None = Field(None, alias="customClass")


class StreamDocument(Document):
    """An edge of the topology."""

    source: _Text = Field(alias="from")
    to: _Text
    grouping: GroupingDocument
    name: Any = None


class IncludeDocument(Document):
    """Another file whose contents count as if they were here."""

    file: _Text
    resource: Flag = False
    override: Flag = False


class FluxDocument(Document):
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
