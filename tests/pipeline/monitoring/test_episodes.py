"""One definition of an episode: the rule that follows a node against runs found by looking at all seconds at once."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.pipeline.measurement.overload import NodeSeries
from stormwright.pipeline.monitoring.episodes import NodeEpisodes, NodeSecond, Run, final_after_s, follow
from tests.examples import examples

CAPACITY = 2.0
#: What a node uses in each second: well below, at or above its capacity, or nothing is heard.
Cores = st.lists(st.sampled_from([None, 0.5, 2.0, 3.5, 3.5, 3.5]), min_size=1, max_size=60)


def episodes_of(cores: list[float | None], after_s: float, capacity: float = CAPACITY) -> list[tuple[int, int, float]]:
    """Start, end and most cores of every run of more than `after_s` seconds; all seconds known."""
    found = []
    for over, run in itertools.groupby(enumerate(cores), key=lambda item: item[1] is not None and item[1] >= capacity):
        seconds = list(run)
        if over and len(seconds) > after_s:
            found.append((seconds[0][0], seconds[-1][0] + 1, max(c for _, c in seconds if c is not None)))
    return found


def follow_all(
    batches: list[list[NodeSecond]], after_s: float, final_s: int
) -> tuple[list[NodeEpisodes], list[Run], list[Run]]:
    runs: list[Run] = []
    newest = None
    steps = []
    for batch in batches:
        after = follow(runs, newest, batch, after_s, final_s)
        runs, newest = after.runs, after.newest_s
        steps.append(after)
    return steps, [run for step in steps for run in step.raised], [run for step in steps for run in step.ended]


def brief(runs: list[Run]) -> list[tuple[int, int, float]]:
    return [(run.start_s, run.end_s, run.peak_cores) for run in runs]


@pytest.mark.long
@settings(max_examples=examples(300), deadline=None)
@given(cores=Cores, after_s=st.sampled_from([1, 2.5, 4, 7]), data=st.data())
def test_batch_order_does_not_change_episodes(cores: list[float | None], after_s: float, data: st.DataObject) -> None:
    """Delivered in batches of any size, twice, out of order and late by no more than is allowed."""
    final_s = final_after_s(after_s, 40)
    quiet = [NodeSecond(len(cores) + n, 0.1, CAPACITY) for n in range(final_s + 2)]
    seconds = [NodeSecond(at, used, CAPACITY) for at, used in enumerate(cores)]
    delays = data.draw(st.lists(st.integers(0, max(final_s - 1, 0)), min_size=len(cores), max_size=len(cores)))
    order = sorted([*seconds, *quiet], key=lambda s: s.at + (delays[s.at] if s.at < len(cores) else 0))
    order += data.draw(st.lists(st.sampled_from(quiet[-1:]), max_size=2))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=20)))
    batches = [order[a:b] for a, b in itertools.pairwise([0, *cuts, len(order)]) if b > a]
    again = data.draw(st.booleans())
    batches = [each for batch in batches for each in ([batch, batch] if again else [batch])]
    steps, raised, ended = follow_all(batches, after_s, final_s)
    expected = episodes_of(cores, after_s)
    assert brief(ended) == expected
    assert steps[-1].runs == []
    # One alarm for each, and its beginning was right.
    assert [run.start_s for run in raised] == [start for start, _, _ in expected]


@settings(max_examples=examples(100), deadline=None)
@given(cores=Cores, after_s=st.sampled_from([1, 3, 5.5]))
def test_alarm_is_raised_at_second_exceeding_threshold(cores: list[float | None], after_s: float) -> None:
    final_s = final_after_s(after_s, 40)
    batches = [[NodeSecond(at, used, CAPACITY)] for at, used in enumerate(cores)]
    steps, _, _ = follow_all(batches, after_s, final_s)
    at = [second for second, step in enumerate(steps) for _ in step.raised]
    assert at == [start + int(after_s) for start, _, _ in episodes_of(cores, after_s)]


def test_state_stays_small_however_long_an_episode_lasts() -> None:
    steps, raised, ended = follow_all([[NodeSecond(at, 3.0, CAPACITY)] for at in range(5000)], 30, 30)
    assert len(raised) == 1
    assert not ended
    assert all(len(step.runs) == 1 for step in steps)
    blinking = [[NodeSecond(at, 3.0 * (at % 2), CAPACITY)] for at in range(500)]
    steps, raised, ended = follow_all(blinking, 30, 30)
    assert max(len(step.runs) for step in steps) <= 17
    assert not raised + ended


def test_delay_beyond_threshold_is_clamped() -> None:
    assert final_after_s(30, 43) == 30
    assert final_after_s(90.5, 43) == 43
    assert final_after_s(0.5, 43) == 0
    late = follow([], 100, [NodeSecond(70, 3.0, CAPACITY), NodeSecond(71, 3.0, CAPACITY)], 30, 30)
    assert brief(late.runs) == [(71, 72, 3.0)]


@settings(max_examples=examples(100), deadline=None)
@given(cores=Cores, last=st.sampled_from([0.5, 3.5]))
def test_profile_overload_equals_followed_run(cores: list[float | None], last: float) -> None:
    cores = [*cores, last]
    heard = [(at, used) for at, used in enumerate(cores) if used is not None]
    seconds = pa.table(
        {
            "topology": ["t"] * len(heard), "supervisor": ["a"] * len(heard), "port": [1] * len(heard),
            "at": [at for at, _ in heard], "cpu_ns": [used * 1e9 for _, used in heard],
            "length_ns": [10**9] * len(heard),
            **{name: pa.nulls(len(heard), pa.float64()) for name in ("used_ns", "quota_ns", "used_known_ns")},
        }
    )  # fmt: skip
    overload_s = NodeSeries(seconds, settle_s=0).overload_s({"a": CAPACITY})["a"]
    followed = follow([], None, [NodeSecond(at, used, CAPACITY) for at, used in enumerate(cores)], 1000, 1000)
    at_end = [run.end_s - run.start_s for run in followed.runs if run.end_s == len(cores)]
    assert overload_s == sum(at_end)
