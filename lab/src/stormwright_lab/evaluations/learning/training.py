"""Training of trees from examples with scikit-learn, and their export as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.portfolio.features import FEATURES
from stormwright.schedulers.portfolio.model import LEAF, Model, RegressionTrees
from stormwright_lab.evaluations.learning.examples import Group, examples_to_dict

#: Parameters of the boosting; chosen on problems drawn by chance that it was not scored on.
SETTINGS: Final = {
    "n_estimators": 200,
    "max_depth": 4,
    "learning_rate": 0.08,
    "subsample": 0.7,
    "min_samples_leaf": 10,
}

#: The least that anything can be learned from.
_MIN_GROUPS: Final = 5

#: Feature of the linear part: the limit of the rate under the measured load.
_LIMIT: Final = FEATURES.index("fullest of all / ideal, log")

#: Significant digits in the file: it stays small, and scores are precise enough.
_DIGITS: Final = 7


def trained(groups: Sequence[Group], made: str, seed: int) -> Model:
    """Return a model of examples. For the trees every problem counts the same, however many placements it has.

    Parameters
    ----------
    groups
        Training examples, one group of placements per problem.
    made
        Description of their origin, stored in the file beside their digest.
    seed
        Seed of the random numbers.

    Raises
    ------
    InputError
        There are too few.
    """
    if len(groups) < _MIN_GROUPS:
        fault = Fault(f"should be at least {_MIN_GROUPS} problems, got {len(groups)}", "examples")
        raise InputError("learn", [fault])
    import sklearn
    from sklearn.ensemble import GradientBoostingRegressor

    features = np.concatenate([group.features for group in groups])
    slope = _slope(groups)
    # Only differences within a problem count: its identity does not show which of its placements is better.
    left = np.concatenate([_centred(-group.badness - group.features @ slope) for group in groups])
    weight = np.concatenate([np.full(len(group.badness), 1 / len(group.badness)) for group in groups])
    boosting = GradientBoostingRegressor(**SETTINGS, random_state=seed)
    boosting.fit(features, left, sample_weight=weight * len(weight) / weight.sum())
    data = {
        "digest": examples_to_dict(groups, made)["digest"],
        "made": made,
        "groups": len(groups),
        "rows": len(left),
    }
    return Model(
        trees=_as_data(boosting, slope),
        data=data,
        trained={"with": f"scikit-learn {sklearn.__version__}", "seed": seed, **SETTINGS},
    )


def _centred(values: FloatArray) -> FloatArray:
    centred: FloatArray = values - values.mean(axis=0)
    return centred


def _slope(groups: Sequence[Group]) -> FloatArray:
    """Return a least-squares line through the rate limits within problems; trees learn the residual."""
    limit = np.concatenate([_centred(group.features[:, _LIMIT]) for group in groups])
    value = np.concatenate([_centred(-group.badness) for group in groups])
    slope = np.zeros(len(FEATURES))
    slope[_LIMIT] = round(float(limit @ value / max(limit @ limit, 1e-9)), _DIGITS)
    return slope


def _as_data(boosting: Any, slope: FloatArray) -> RegressionTrees:
    """Return the trees of a boosting in sequence, with children after their parents."""
    roots, parts, first = [], [], 0
    for (estimator,) in boosting.estimators_:
        tree = estimator.tree_
        here = np.arange(tree.node_count)
        inner = tree.children_left >= 0
        roots.append(first)
        parts.append(
            (
                np.where(inner, tree.feature, LEAF),
                np.where(inner, np.round(tree.threshold, _DIGITS), 0.0),
                np.where(inner, tree.children_left, here) + first,
                np.where(inner, tree.children_right, here) + first,
                np.where(inner, 0.0, np.round(boosting.learning_rate * tree.value[:, 0, 0], _DIGITS)),
            )
        )
        first += tree.node_count
    feature, threshold, left, right, value = (np.concatenate(each) for each in zip(*parts, strict=True))
    return RegressionTrees(slope, np.array(roots), feature, threshold, left, right, value)
