"""What the demonstration's cluster is like by default."""

from __future__ import annotations

import pytest

from stormwright.errors import InputError
from stormwright.workbench.demo import run
from stormwright.workbench.demo.run import fair_cluster


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(run, "why_no_cpu_limits", lambda cores: "")
    monkeypatch.setattr(run, "fitting_cores", lambda nodes: int(1.2 / nodes * 20 + 1e-9) / 20)


def test_nodes_have_cpu_of_their_own_and_links_as_a_usual_node(monkeypatch):
    found = fair_cluster(3, 6, None, None)
    assert (found.cores_per_node, found.link, found.cpu_limits) == ((0.6, 0.35, 0.25), "25mbit", "groups")
    assert fair_cluster(2, 6, None, None).cores_per_node == 0.4, "only three are unlike by default"
    monkeypatch.setattr(run, "fitting_cores", lambda nodes: 20.0)
    assert fair_cluster(3, 6, None, None).cores_per_node == (0.6, 0.35, 0.25), "figures are alike on larger machines"


def test_cluster_without_cpu_limits_uses_defaults_with_notice(monkeypatch, caplog):
    monkeypatch.setattr(run, "why_no_cpu_limits", lambda cores: "only root can make control groups")
    found = fair_cluster(3, 6, None, None)
    assert (found.link, found.cores_per_node) == ("40mbit", None)
    assert caplog.messages == ["nodes share the machine's cores: only root can make control groups"]


def test_nodes_share_cores_when_fair_share_is_too_small(caplog):
    assert fair_cluster(6, 6, None, None).cores_per_node is None
    assert "0.2 are left for each" in caplog.text


def test_requested_cluster_sizes_are_used_and_validated():
    found = fair_cluster(2, 4, "5mbit", 1.5)
    assert (found.cores_per_node, found.link, found.cpu_limits) == (1.5, "5mbit", "groups")
    found = fair_cluster(2, 4, None, 0)
    assert (found.cores_per_node, found.link) == (None, "40mbit")
    with pytest.raises(InputError, match=r"\$\.nodes"):
        fair_cluster(0, 4, None, None)
    with pytest.raises(InputError, match=r"\$\.cores_per_node"):
        fair_cluster(2, 4, None, -1.0)
