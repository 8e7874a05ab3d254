"""YAML files as plain values that JSON supports."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stormwright.base.escaping import is_text
from stormwright.errors import Fault, InputError
from stormwright.formats.document.faults import FaultList, join_path, shown

if TYPE_CHECKING:
    import yaml

#: Most values of a file with its aliases expanded.
MAX_NODES = 1_000_000

_ENDLESS = "a list or an object contains itself"


def read_yaml(path: Path | zipfile.Path, change: Callable[[str], str] = lambda text: text) -> Any:
    """Read the YAML file at `path`, after `change` has been applied to its text.

    Keys become texts, and so do values that JSON does not have (dates, for one), as on their way to Nimbus.

    Raises
    ------
    InputError
        The file cannot be read, is not YAML, or has values that JSON does not support: integers of more than 64 bits,
        lone surrogates; all its faults. (``.nan`` and ``.inf``, which JSON does not have either, are accepted.)
    """
    try:
        text = path.read_bytes().decode()
    except (OSError, zipfile.BadZipFile, zlib.error) as error:
        raise _unusable(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, f"is not text in UTF-8: {error.reason} at byte {error.start}") from error
    return _parsed(path, change(text))


def _parsed(path: Path | zipfile.Path, text: str) -> Any:
    import yaml  # takes long to import

    try:
        loader = _snake_loader()(text)
        try:
            root = loader.get_single_node()
            nodes = _Sizes().of(root) if root is not None else 0
            if nodes > MAX_NODES:
                stands = (
                    f"its aliases (*name) stand for {nodes:,} values" if nodes < 10**18 else "its aliases never end"
                )
                raise _unusable(path, f"{stands}; at most {MAX_NODES:,} are read")
            value = loader.construct_document(root) if root is not None else None
        finally:
            loader.dispose()
        plain = _PlainValues()
        document = plain.of(value, "$")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise _unusable(path, f"is not YAML: {error.problem or error.context}{where}") from error
    except (yaml.YAMLError, ValueError) as error:  # a character or a date that there is not, an endless list
        raise _unusable(path, f"is not YAML: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise _unusable(path, "is nested too deeply") from error
    if plain.faults:
        raise plain.faults.error(str(path))
    return document


@cache
def _snake_loader() -> type[yaml.SafeLoader]:
    """Return a loader with the numbers of SnakeYAML, by which Storm reads YAML."""
    import yaml

    class SnakeLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        """With numbers such as 1e3, and no parts of 60 in those with a point."""

    # org.yaml.snakeyaml.resolver.Resolver.FLOAT of SnakeYAML 2.4
    number = re.compile(
        r"""[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?$|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+$
        |\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$""",
        re.VERBOSE,
    )
    tag = "tag:yaml.org,2002:float"
    SnakeLoader.yaml_implicit_resolvers = {
        first: [each for each in of if each[0] != tag] for first, of in SnakeLoader.yaml_implicit_resolvers.items()
    }
    SnakeLoader.add_implicit_resolver(tag, number, list("-+0123456789."))
    return SnakeLoader


class _Sizes:
    """Number of values of the nodes of a text with each alias expanded, as ``<<`` does while it is read.

    A text of 500 characters can stand for more than any memory holds.
    """

    def __init__(self) -> None:
        self._done: dict[int, int] = {}
        self._inside: set[int] = set()

    def of(self, node: yaml.Node) -> int:
        """Return the number of values of `node`, including itself."""
        if isinstance(node.value, str):
            return 1
        if id(node) in self._inside:
            raise ValueError(_ENDLESS)
        if id(node) not in self._done:
            self._inside.add(id(node))
            # A mapping has pairs of nodes.
            parts = (part for item in node.value for part in (item if isinstance(item, tuple) else (item,)))
            self._done[id(node)] = 1 + sum(map(self.of, parts))
            self._inside.discard(id(node))
        return self._done[id(node)]


class _PlainValues:
    """Conversion of values to plain ones; each list and object once, however often the file refers to it."""

    def __init__(self) -> None:
        self.faults = FaultList()
        self._done: dict[int, Any] = {}

    def of(self, value: Any, path: str) -> Any:
        """Return `value`, which is at `path`, as a plain one; add a fault if JSON does not support it."""
        if value is None or isinstance(value, (bool, float)):
            return value
        if isinstance(value, int):
            return self._checked(value, path, -(2**63) <= value < 2**63, "should be a number of at most 64 bits")
        if not isinstance(value, (dict, list)):
            return self._checked(str(value), path, is_text(str(value)), "should be text, with no half characters")
        if id(value) not in self._done:
            if isinstance(value, list):
                self._done[id(value)] = [self.of(item, f"{path}[{position}]") for position, item in enumerate(value)]
            else:
                self._done[id(value)] = dict(self._entry(*pair, path) for pair in value.items())
        return self._done[id(value)]

    def _entry(self, key: object, value: Any, path: str) -> tuple[str, Any]:
        name = str(key).lower() if key is None or isinstance(key, bool) else str(key)
        at = join_path(path, name)
        return self._checked(name, at, is_text(name), "should be text, with no half characters"), self.of(value, at)

    def _checked(self, value: Any, path: str, sound: bool, wanted: str) -> Any:
        if not sound:
            self.faults.add(f"{wanted}, got {shown(value)}", path)
        return value


def _unusable(path: Path | zipfile.Path, message: str) -> InputError:
    return InputError(str(path), [Fault(message, "$")])
