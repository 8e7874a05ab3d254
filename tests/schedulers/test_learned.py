"""Learned choice: what it goes by, what it refuses, and the description of its answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stormwright_lab.evaluations.learning.examples import Group, random_problem, read_examples, write_examples
from stormwright_lab.evaluations.learning.training import SETTINGS, trained

from stormwright.errors import InputError
from stormwright.formats import read_problem, write_json
from stormwright.model import LoadProfile, violations
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.portfolio.features import FEATURES, FeatureExtractor
from stormwright.schedulers.portfolio.model import OURS, digest_of, read_model
from stormwright.schedulers.portfolio.variants import Variants

WORD_COUNT = read_problem(Path(__file__).parents[2] / "docs" / "schedulers" / "word-count.json")


def some_groups(count=12, rows=20, seed=0):
    """Of which the first feature that a line goes by says nearly all."""
    rng = np.random.default_rng(seed)
    at = FEATURES.index("fullest of all / ideal, log")
    for number in range(count):
        features = np.round(rng.uniform(0, 1, (rows, len(FEATURES))), 6)
        yield Group.of(
            f"p{number}", f"p{number}", list(features), (features[:, at] + 0.3 * features[:, 0] ** 2).tolist()
        )


@pytest.mark.long
def test_learned_placement_respects_limits_and_has_a_reason():
    found = make_scheduler("learned").schedule(WORD_COUNT)
    assert violations(WORD_COUNT, found.slot_of_executor) == []
    assert found.scheduler == "learned"
    assert found.parameters["reason"].startswith(f"{found.parameters['chosen']} is the best of ")
    assert "throughput beside the next" in found.parameters["reason"]
    none = make_scheduler("learned", {"variants": 0}).schedule(WORD_COUNT)
    chosen = make_scheduler(none.parameters["chosen"]).schedule(WORD_COUNT)
    assert np.array_equal(none.slot_of_executor, chosen.slot_of_executor)


def test_figures_do_not_hang_on_the_size_of_the_load():
    """Ten times the load on ten times as many cores of nodes with ten times the link: only workers cost less of it."""
    of = random_problem(np.random.default_rng(3), "drawn")
    amounts = ("cpu_hz", "pair_tps", "flow_tps", "pair_bytes_per_s", "flow_bytes_per_s")
    slow = replace(of, supervisors=tuple(replace(node, link_bps=1e8) for node in of.supervisors))
    nodes = tuple(replace(node, cpu_hz=10 * node.cpu_hz, link_bps=1e9) for node in of.supervisors)
    loads = {
        name: replace(load, **{each: 10 * getattr(load, each) for each in amounts})
        for name, load in of.load.topologies.items()
    }
    fast = replace(of, supervisors=nodes, load=LoadProfile(loads, end_ms=of.load.end_ms))
    free = {"costs": costs_without_workers()}
    found = []
    for each in (slow, fast):
        each = each.with_load(replace(each.load, **free))
        found.append(dict(zip(FEATURES, FeatureExtractor(each).features(each.current_slot), strict=True)))
    of_cores = {"busiest thread / fullest CPU, log", "fullest of all / ideal, log", "executors for each core, log"}
    of_cores.add("second fullest node of all / fullest")
    for name in set(FEATURES) - of_cores:
        assert found[0][name] == pytest.approx(found[1][name], abs=2e-6), name


def costs_without_workers():
    return {"schema": "stormwright-calibration/1", "costs": {"worker_cores": 0.0}}


@pytest.mark.long
def test_exported_trees_equal_library_predictions():
    from sklearn.ensemble import GradientBoostingRegressor  # other processes are not to wait for it

    groups = list(some_groups())
    model = trained(groups, "made", 3)
    features = np.concatenate([group.features for group in groups])
    left = [-g.badness - g.features @ model.trees.slope for g in groups]
    left = np.concatenate([each - each.mean() for each in left])
    boosting = GradientBoostingRegressor(**SETTINGS, random_state=3).fit(
        features, left, sample_weight=np.ones(len(left))
    )
    expected = features @ model.trees.slope + boosting.predict(features)
    scores = model.trees.score(features)
    assert np.allclose(scores - scores.mean(), expected - expected.mean(), atol=1e-4)


@pytest.mark.long
def test_training_learns_to_avoid_bad_placements():
    model = trained(list(some_groups(40)), "made", 0)
    for group in some_groups(10, seed=1):
        worst = group.badness[int(np.argmax(model.trees.score(group.features)))]
        assert worst < 0.25 * group.badness.max()


@pytest.mark.long
def test_the_same_examples_make_the_same_model(tmp_path):
    first, again = (trained(list(some_groups()), "made", 0).as_dict() for _ in range(2))
    assert first == again
    write_json(tmp_path / "model.json", first)
    assert read_model(tmp_path / "model.json").as_dict() == first
    assert first["data"]["rows"] == 240


def test_bundled_model_contains_its_training_metadata():
    model = read_model(OURS)
    assert model.data["groups"] > 100
    assert "drawn with seed 0" in model.data["made"]
    assert model.trained["with"].startswith("scikit-learn")


def changed(tmp_path, change, signed=True):
    document = json.loads(OURS.read_text(encoding="utf-8"))
    change(document)
    if signed:
        document["digest"] = digest_of({name: value for name, value in document.items() if name != "digest"})
    path = tmp_path / "model.json"
    write_json(path, document)
    return path


@pytest.mark.parametrize(
    ("change", "signed", "why"),
    [
        (lambda of: of.update(schema="stormwright-learned/9"), True, "this version reads stormwright-learned/1"),
        (lambda of: of.update(schema="other"), True, "is no model of `learned`"),
        (lambda of: of["trees"]["value"].__setitem__(0, 9.0), False, "its digest does not match"),
        (lambda of: of["features"].pop(), True, "other features than this version has"),
        (lambda of: of["trees"]["left"].__setitem__(0, 0), True, "has trees that lead nowhere"),
        (lambda of: of["trees"].pop("root"), True, "should have trees as arrays of numbers"),
    ],
)
def test_invalid_model_file_is_rejected(tmp_path, change, signed, why):
    with pytest.raises(InputError, match=why):
        make_scheduler("learned", {"model": str(changed(tmp_path, change, signed))})


def test_missing_model_file_is_rejected(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        make_scheduler("learned", {"model": str(tmp_path / "none.json")})


def test_variants_move_no_running_executor_and_empty_no_worker():
    of = random_problem(np.random.default_rng(5), "drawn")
    first, *others = of.topologies
    waiting = of.with_current({name: each for name, each in of.current.items() if name != first.id})
    found = list(Variants(waiting, np.random.default_rng(0)).of(of.current_slot, 100))
    assert len(found) > 10
    runs = np.concatenate([np.arange(of.num_executors)[of.executors_of(n + 1)] for n in range(len(others))] or [[]])
    for slots in found:
        assert np.array_equal(slots[runs.astype(int)], of.current_slot[runs.astype(int)])
        assert len(set(slots.tolist())) == len(set(of.current_slot.tolist()))


def test_examples_survive_their_file(tmp_path):
    groups = list(some_groups(5))
    write_examples(tmp_path / "examples.json.gz", groups, "made")
    again = read_examples(tmp_path / "examples.json.gz")
    assert [group.as_dict() for group in again] == [group.as_dict() for group in groups]
    document = {"schema": "stormwright-examples/1", "groups": []}
    write_json(tmp_path / "damaged.json", document)
    with pytest.raises(InputError, match="its digest does not match"):
        read_examples(tmp_path / "damaged.json")


def test_too_few_training_examples_are_rejected():
    with pytest.raises(InputError, match="should be at least 5 problems, got 2"):
        trained(list(some_groups(2)), "made", 0)
