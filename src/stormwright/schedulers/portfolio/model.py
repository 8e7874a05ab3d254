"""What was learned, as data: trees in plain arrays, with the digest of what they were learned from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import orjson

from stormwright.errors import Fault, InputError
from stormwright.formats import read_json
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.schedulers.portfolio.features import FEATURES

#: Of such a file; another number where what is in it means something else.
MODEL_SCHEMA: Final = "stormwright-learned/1"

#: The one that comes with the package.
OURS: Final = Path(__file__).parent / "learned.json"

#: What a leaf has for a feature.
LEAF: Final = -1

_ARRAYS: Final = ("feature", "threshold", "left", "right", "value")


@dataclass(frozen=True, eq=False)
class RegressionTrees:
    """Regression trees whose values add up, on top of a straight line.

    Parameters
    ----------
    slope
        What the line rises by with each feature, shape (F,).
    root
        The node that each tree begins with, shape (K,).
    feature
        Which is looked at, `LEAF` for leaves, shape (M,).
    threshold
        Up to it the way goes left, shape (M,).
    left, right
        The next node; of leaves themselves, shape (M,).
    value
        Of leaves, shape (M,).
    """

    slope: FloatArray
    root: IndexArray
    feature: IndexArray
    threshold: FloatArray
    left: IndexArray
    right: IndexArray
    value: FloatArray

    def score(self, features: FloatArray) -> FloatArray:
        """The value of each row of features, shape (n, F) → (n,)."""
        rows = np.arange(len(features))[:, None]
        node = np.repeat(self.root[None], len(features), axis=0)
        while True:
            looks = self.feature[node]
            inner = looks != LEAF
            if not inner.any():
                return np.asarray(features @ self.slope + self.value[node].sum(axis=1), dtype=np.float64)
            goes_left = features[rows, np.where(inner, looks, 0)] <= self.threshold[node]
            node = np.where(goes_left, self.left[node], self.right[node])

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name).tolist() for name in ("slope", "root", *_ARRAYS)}


@dataclass(frozen=True, eq=False)
class Model:
    """What a file holds.

    Parameters
    ----------
    trees
        What was learned: logarithms of throughput, to be compared with those of other placements of the same problem.
    data
        What it was learned from: its ``digest``, how it was ``made``, how many ``groups`` and ``rows`` it has.
    trained
        With what library, seed and settings.
    """

    trees: RegressionTrees
    data: Mapping[str, Any]
    trained: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with its own digest."""
        content = {
            "schema": MODEL_SCHEMA,
            "features": list(FEATURES),
            "data": dict(self.data),
            "trained": dict(self.trained),
            "trees": self.trees.as_dict(),
        }
        return {**content, "digest": digest_of(content)}


def digest_of(content: object) -> str:
    """The same for equal content, whatever the order of its keys."""
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


@lru_cache(maxsize=4)
def read_model(path: Path = OURS) -> Model:
    """The model in the file at `path`.

    Raises
    ------
    InputError
        It cannot be read, is something else, of another version, damaged, or about other features than these.
    """
    document = read_json(path)
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("stormwright-learned/"):
        _fail(path, "is no model of `learned`: `stormwright learn` makes one", "$.schema")
    if document["schema"] != MODEL_SCHEMA:
        why = f"is {document['schema']}, and this version reads {MODEL_SCHEMA}: make it anew with `stormwright learn`"
        _fail(path, why, "$.schema")
    content = {name: value for name, value in document.items() if name != "digest"}
    if digest_of(content) != document.get("digest"):
        _fail(path, "is not what was written: its digest says something else; make it anew", "$.digest")
    if document.get("features") != list(FEATURES):
        _fail(path, "was learned from other features than this version has: make it anew", "$.features")
    return Model(_trees(path, document.get("trees")), document["data"], document["trained"])


def _trees(path: Path, told: object) -> RegressionTrees:
    try:
        assert isinstance(told, dict)  # noqa: S101 - as all else that is wrong here, told below
        kinds = {each.name: np.float64 if "Float" in str(each.type) else np.intp for each in fields(RegressionTrees)}
        arrays: dict[str, Any] = {name: np.array(told[name], dtype=kind) for name, kind in kinds.items()}
        trees = RegressionTrees(**arrays)
    except (AssertionError, KeyError, TypeError, ValueError, OverflowError):
        _fail(path, "should have trees as arrays of numbers", "$.trees")
    nodes = np.arange(len(trees.feature))
    inner = trees.feature != LEAF
    lengths = {len(getattr(trees, name)) for name in _ARRAYS}
    sound = (
        len(lengths) == 1
        and trees.slope.shape == (len(FEATURES),)
        and bool(np.all((trees.root >= 0) & (trees.root < len(nodes))))
    )
    # Ways lead on only, so that each has an end.
    for way in (trees.left, trees.right) if sound else ():
        sound = sound and bool(np.all((way < len(nodes)) & (way >= nodes) & ((way > nodes) | ~inner)))
    sound = sound and bool(np.all((trees.feature >= LEAF) & (trees.feature < len(FEATURES))))
    if not sound:
        _fail(path, "has trees that lead nowhere", "$.trees")
    return trees


def _fail(path: Path, message: str, at: str) -> NoReturn:
    raise InputError(str(path), [Fault(message, at)])
