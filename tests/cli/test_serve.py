"""``stormwright serve``: what ends it before anything is started."""

from __future__ import annotations

import os

import pytest

from stormwright.alone import alone
from stormwright.cli.serve import LOCK


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--keep-raw", "inf"], "'--keep-raw': inf is no number that one can count to"),
        (["--keep-raw", "nan"], "'--keep-raw': nan is no number"),
        (["--keep-raw", -1], "'--keep-raw': -1.0 is not in the range"),
        (["--alarm-after", "inf"], "'--alarm-after': inf is no number"),
        (["--forecast", 0], "'--forecast': 0 is not in the range"),
        (["--period", "nan"], "'--period': nan is no number"),
        (["--cool-down", -1], "'--cool-down': -1.0 is not in the range"),
        (["--gain", 101], "'--gain': 101.0 is not in the range"),
        (["--history-format", "orc"], "orc: unknown; there are parquet, delta"),
        (["--scheduler", "nobody"], "nobody: unknown scheduler"),
        (["--set", "objective=nodes"], "says nodes, and --objective says throughput: name one of them"),
        (["--storm-home", "/no/such/place"], "'/no/such/place' does not exist"),
    ],
)
def test_bad_options_end_with_2(run, tmp_path, arguments, said):
    code, out, err = run("serve", "--storm-home", tmp_path, "--state", tmp_path / "state", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "state").exists()


def test_serve_ends_with_2_and_touches_nothing(run, tmp_path):
    state = tmp_path / "state"
    with alone(state, "", LOCK):
        code, out, err = run("serve", "--storm-home", tmp_path, "--state", state, "--dry-run", "--port", 7071)
    assert (code, out) == (2, "")
    assert f"another service uses it: stop that, or name another --state (process {os.getpid()})" in err
    assert [path.name for path in state.iterdir()] == [LOCK]
