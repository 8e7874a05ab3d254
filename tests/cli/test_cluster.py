"""``stormwright cluster`` where there is none; with one, tests/storm."""

from __future__ import annotations

import pytest

from stormwright.storm.local import RunningCluster


def test_no_cluster_says_how_to_have_one(run, monkeypatch, capsys):
    monkeypatch.setattr(RunningCluster, "find", classmethod(lambda cls: None))
    with pytest.raises(SystemExit, match="1"):
        run("cluster", "status")
    assert capsys.readouterr().out == "no local cluster is up: `stormwright cluster up` starts one\n"
