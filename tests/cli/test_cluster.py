"""``stormwright cluster`` where there is none; with one, tests/storm."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stormwright.storm.local_cluster import RunningCluster
from stormwright.workbench.demo.submissions import TOPOLOGIES


@pytest.fixture
def no_cluster(monkeypatch):
    monkeypatch.setattr(RunningCluster, "find", classmethod(lambda cls: None))


@pytest.mark.parametrize("verb", [("submit", "diamond"), ("serve",)])
def test_cluster_commands_without_cluster_name_start_command(run, no_cluster, verb):
    code, _, err = run("cluster", *verb)
    assert code == 2
    assert "no local cluster is up: `stormwright cluster up` starts one" in err


def test_help_names_every_kind_of_topology(run):
    _, out, _ = run("cluster", "submit", "--help")
    assert all(kind in out for kind in TOPOLOGIES)


def test_cluster_submit_rejects_unknown_topology_and_arguments(run, monkeypatch):
    monkeypatch.setattr(RunningCluster, "find", classmethod(lambda cls: SimpleNamespace(service_url="http://x")))
    code, _, err = run("cluster", "submit", "diamnd", "star:rate")
    assert code == 2
    assert "KIND[0]: no topology called 'diamnd'; did you mean diamond?" in err
    assert "KIND[1]: 'rate' is not key=value" in err


class Submitting:
    """A cluster that only takes topologies."""

    service_url = "http://x"

    def run_topology(self, *arguments):
        self.arguments = arguments


def test_cluster_submit_takes_a_jar(run, monkeypatch, tmp_path):
    cluster, jar = Submitting(), tmp_path / "my.jar"
    monkeypatch.setattr(RunningCluster, "find", classmethod(lambda cls: cluster))
    assert "my.jar: no such file" in run("cluster", "submit", "my.jar", "a.Main")[2]
    jar.touch()
    assert "name the class whose main submits the topology" in run("cluster", "submit", jar)[2]
    code, out, _ = run("cluster", "submit", jar, "a.Main", "--rate", "5", "name")
    assert (code, out) == (0, "a.Main is submitted\n")
    main, arguments, conf, uploaded = cluster.arguments
    assert (main, arguments, uploaded) == ("a.Main", ("--rate", "5", "name"), jar)
    assert conf["topology.auto.task.hooks"] == ["stormwright.ExecutorProbe"]


def test_cluster_status_without_cluster_names_start_command(run, no_cluster, capsys):
    with pytest.raises(SystemExit, match="1"):
        run("cluster", "status")
    assert capsys.readouterr().out == "no local cluster is up: `stormwright cluster up` starts one\n"
