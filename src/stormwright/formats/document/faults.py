"""Collection of all faults of a document, each with its JSON path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from stormwright.base.escaping import shown
from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.model.faults import MAX_FAULTS, join_path

__all__ = ["MAX_FAULTS", "FaultList", "join_path", "raise_all", "shown"]

Model = TypeVar("Model", bound=BaseModel)

#: Beginnings of Pydantic's messages with the input ("Input should", "String should"), which the path replaces.
_SUBJECT = re.compile(r"\A\w+ should ")

#: Prefix of the names of our schemas; the rest is the kind of the document.
_OURS = re.compile(r"stormwright-(?P<kind>[a-z]+)\b")

#: Items of a list that are validated at once.
_BATCH = 10_000


def require_schema(document: object, source: str, *wanted: str) -> None:
    """Raise if a document declares another of our schemas than those `wanted`.

    Raises
    ------
    InputError
        The document has faults.
    """
    named = document.get("schema") if isinstance(document, Mapping) else None
    if isinstance(named, str) and _OURS.match(named) and _kind(named) not in map(_kind, wanted):
        message = f"is {_a(_kind(named))} ({shown(named)}), and {_a(_kind(wanted[0]))} should be here"
        raise InputError(source, [Fault(message, "$")])


def raise_all(errors: Sequence[InputError]) -> None:
    """Raise the errors of several inputs as one; do nothing without any."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise StormwrightError("\n".join(str(error) for error in errors))


class FaultList:
    """The faults found so far; reading goes on after each, so that a file's faults are reported together.

    Beyond `MAX_FAULTS` faults are only counted.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._more = 0

    def __len__(self) -> int:
        return len(self.faults) + self._more

    def add(self, message: str, path: str) -> None:
        """Add a fault."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(message, path))
        else:
            self._more += 1

    def error(self, source: str) -> InputError:
        """Return all faults as the error of `source`."""
        return InputError(source, self.faults, self._more)

    def parse(self, model: type[Model], raw: object, path: str) -> Model | None:
        """Return `raw` as `model`; None, and a fault for each problem, if it is not one."""
        try:
            return model.model_validate(raw)
        except ValidationError as invalid:
            if len(self.faults) == MAX_FAULTS:
                self._more += invalid.error_count()
                return None
            for error in invalid.errors(include_url=False):
                self.add(_message(error), join_path(path, *error["loc"]))
            return None

    def items(self, raw: object, key: str, path: str) -> Iterator[tuple[object, str]]:
        """Yield each item of the list `raw[key]` with its path; add a fault if it is not a list."""
        values = raw.get(key, []) if isinstance(raw, dict) else []
        if not isinstance(values, list):
            self.add(f"should be a list, got {shown(values)}", join_path(path, key))
        elif values:
            path = join_path(path, key)
            for position, value in enumerate(values):
                yield value, f"{path}[{position}]"

    def parse_each(
        self, model: type[Model], raw: object, key: str, path: str
    ) -> Iterator[tuple[object, Model | None, str]]:
        """Yield each item of the list `raw[key]`, the parsed model, and its path; faults as with `items` and `parse`.

        Many are validated at once, and one by one only if that finds a fault. For few items it saves no time.

        Parameters
        ----------
        model
            Type of each item; None is given for one that is invalid.
        raw, key
            The object, and the key of the list. Anything but an object has no items.
        path
            JSON path of `raw`.
        """
        everything = self.items(raw, key, path)
        while items := list(islice(everything, _BATCH)):
            try:
                parsed: Iterator[Model | None] = iter(_list_of(model).validate_python([item for item, _ in items]))
            except ValidationError as invalid:
                if len(self.faults) == MAX_FAULTS:  # one by one takes twice the time, for faults beyond the limit
                    self._more += invalid.error_count()
                    parsed = iter([None] * len(items))
                else:
                    parsed = (self.parse(model, item, at) for item, at in items)
            for (item, at), value in zip(items, parsed, strict=True):
                yield item, value, at

    def distinct(self, raw: object, key: str, path: str) -> dict[str, int]:
        """Return `id` of each object in the list `raw[key]` → its position; add a fault for each duplicate."""
        positions: dict[str, int] = {}
        values = raw.get(key) if isinstance(raw, Mapping) else None
        for position, value in enumerate(values if isinstance(values, list) else []):
            name = value.get("id") if isinstance(value, Mapping) else None
            if not isinstance(name, str):
                continue
            first = positions.setdefault(name, position)
            if first != position:
                self.add(f"{shown(name)} is the id of item {first} already", join_path(path, key, position, "id"))
        return positions

    def entries(self, raw: object, key: str, path: str) -> Iterator[tuple[str, object, str]]:
        """Yield each key and value of the object `raw[key]` with its path; add a fault if it is not an object."""
        path = join_path(path, key)
        values = raw.get(key, {}) if isinstance(raw, Mapping) else {}
        if not isinstance(values, Mapping):
            self.add(f"should be an object, got {shown(values)}", path)
            return
        for name, value in values.items():
            yield name, value, join_path(path, name)


def _kind(schema: str) -> str:
    found = _OURS.match(schema)
    return found["kind"] if found else schema


def _a(noun: str) -> str:
    return f"an {noun}" if noun[:1] in "aeiou" else f"a {noun}"


@cache
def _list_of(model: type[Model]) -> TypeAdapter[list[Model]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]  # a type at run time


def _message(error: ErrorDetails) -> str:
    match error["type"]:
        case "missing":
            return "required field missing"
        case "extra_forbidden":
            return "unknown key"
        case "model_type" | "dict_type":
            return f"should be an object, got {shown(error['input'])}"
    wanted = _SUBJECT.sub("should ", error["msg"]).replace("valid list", "list")
    return f"{wanted}, got {shown(error['input'])}"
