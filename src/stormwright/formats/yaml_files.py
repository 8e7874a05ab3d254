"""YAML files as plain values, those that JSON has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stormwright.errors import Fault, InputError


def read_yaml(path: Path, change: Callable[[str], str] = lambda text: text) -> Any:
    """What the YAML file at `path` holds, after `change` has been made to its text.

    Keys become texts, and so does what JSON does not have (dates, for one), as on its way to Nimbus.

    Raises
    ------
    InputError
        The file cannot be read, or is not YAML.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, f"is not text in UTF-8: {error.reason} at byte {error.start}") from error
    return _parsed(path, change(text))


def _parsed(path: Path, text: str) -> Any:
    import yaml  # an extra

    try:
        return _Plain().of(yaml.safe_load(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise _unusable(path, f"is not YAML: {error.problem or error.context}{where}") from error
    except (yaml.YAMLError, ValueError) as error:  # a character or a date that there is not, an endless list
        raise _unusable(path, f"is not YAML: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise _unusable(path, "is nested too deeply") from error


class _Plain:
    """Makes values plain; each list and object once, however often the file refers to it."""

    def __init__(self) -> None:
        self._done: dict[int, Any] = {}
        self._inside: set[int] = set()

    def of(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if not isinstance(value, (dict, list)):
            return str(value)
        if id(value) in self._inside:
            raise ValueError("a list or an object contains itself")
        if id(value) not in self._done:
            self._inside.add(id(value))
            if isinstance(value, list):
                self._done[id(value)] = [self.of(item) for item in value]
            else:
                self._done[id(value)] = {_key(key): self.of(item) for key, item in value.items()}
            self._inside.discard(id(value))
        return self._done[id(value)]


def _key(key: object) -> str:
    return str(key).lower() if key is None or isinstance(key, bool) else str(key)


def _unusable(path: Path, message: str) -> InputError:
    return InputError(str(path), [Fault(message, "$")])
