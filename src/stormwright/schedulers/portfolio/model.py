"""Trained models as data: trees in plain arrays, with the digest of their training data."""

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

#: Schema of the file; the number changes with the meaning of its content.
MODEL_SCHEMA: Final = "stormwright-learned/1"

#: Model in the package.
OURS: Final = Path(__file__).parent / "learned.json"

#: Feature of a leaf.
LEAF: Final = -1

_ARRAYS: Final = ("feature", "threshold", "left", "right", "value")


@dataclass(frozen=True, eq=False)
class RegressionTrees:
    """Boosted regression trees on top of a linear model.

    Parameters
    ----------
    slope
        Coefficients of the linear model, shape (F,).
    root
        Root node of each tree, shape (K,).
    feature
        Feature of each node, `LEAF` for leaves, shape (M,).
    threshold
        Values up to it go left, shape (M,).
    left, right
        Child nodes; of leaves themselves, shape (M,).
    value
        Values of leaves, shape (M,).
    """

    slope: FloatArray
    root: IndexArray
    feature: IndexArray
    threshold: FloatArray
    left: IndexArray
    right: IndexArray
    value: FloatArray

    def score(self, features: FloatArray) -> FloatArray:
        """Return the value of each row of features, shape (n, F) → (n,)."""
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
        """Return the trees as a JSON object."""
        return {name: getattr(self, name).tolist() for name in ("slope", "root", *_ARRAYS)}


@dataclass(frozen=True, eq=False)
class Model:
    """Content of a model file.

    Parameters
    ----------
    trees
        Trees for logarithms of throughput, comparable between placements of the same problem.
    data
        Training data: its ``digest``, how it was ``made``, its number of ``groups`` and ``rows``.
    trained
        Library, seed and settings of the training.
    """

    trees: RegressionTrees
    data: Mapping[str, Any]
    trained: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the model as a JSON object with its own digest."""
        content = {
            "schema": MODEL_SCHEMA,
            "features": list(FEATURES),
            "data": dict(self.data),
            "trained": dict(self.trained),
            "trees": self.trees.as_dict(),
        }
        return {**content, "digest": digest_of(content)}


def digest_of(content: object) -> str:
    """Return a digest that is equal for equal content, whatever the order of keys."""
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


@lru_cache(maxsize=4)
def read_model(path: Path = OURS) -> Model:
    """Read the model in the file at `path`.

    Raises
    ------
    InputError
        It cannot be read, is not a model, of another version, damaged, or trained on other features.
    """
    document = read_json(path)
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("stormwright-learned/"):
        _fail(path, "is no model of `learned`: `stormwright learn` makes one", "$.schema")
    if document["schema"] != MODEL_SCHEMA:
        why = (
            f"is {document['schema']}, and this version reads {MODEL_SCHEMA}: create it again with `stormwright learn`"
        )
        _fail(path, why, "$.schema")
    content = {name: value for name, value in document.items() if name != "digest"}
    if digest_of(content) != document.get("digest"):
        _fail(path, "is damaged: its digest does not match; create it again with `stormwright learn`", "$.digest")
    if document.get("features") != list(FEATURES):
        _fail(
            path,
            "was trained on other features than this version has: create it again with `stormwright learn`",
            "$.features",
        )
    return Model(_trees(path, document.get("trees")), document["data"], document["trained"])


def _trees(path: Path, document: object) -> RegressionTrees:
    try:
        assert isinstance(document, dict)  # noqa: S101 - reported below, like all other errors here
        kinds = {each.name: np.float64 if "Float" in str(each.type) else np.intp for each in fields(RegressionTrees)}
        arrays: dict[str, Any] = {name: np.array(document[name], dtype=kind) for name, kind in kinds.items()}
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
    # Children have higher numbers, so that every path ends.
    for way in (trees.left, trees.right) if sound else ():
        sound = sound and bool(np.all((way < len(nodes)) & (way >= nodes) & ((way > nodes) | ~inner)))
    sound = sound and bool(np.all((trees.feature >= LEAF) & (trees.feature < len(FEATURES))))
    if not sound:
        _fail(path, "has trees that lead nowhere", "$.trees")
    return trees


def _fail(path: Path, message: str, at: str) -> NoReturn:
    raise InputError(str(path), [Fault(message, at)])
