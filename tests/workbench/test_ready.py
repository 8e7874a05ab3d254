"""The experiments of the TOP-Storm paper as ready problems: its tables 4 and 5, and what it says of the outcome."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.model import violations
from stormwright.predict.answer import predict
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.top_storm import computation_power
from stormwright.workbench.generated_problems import CLUSTERS, PAPERS, top_storm
from stormwright.workbench.ready_problems import read_problem

TOPOLOGIES = ("word-count", "exclamation")

#: The paper's section 6: slots that the topology asks for, slots of a supervisor node, share of nodes TOP-Storm used.
CONFIGURATIONS = {
    1: (5, 5, "20%"),
    2: (5, 4, "40%"),
    3: (5, 3, "40%"),
    4: (4, 4, "20%"),
    5: (4, 3, "40%"),
    6: (3, 3, None),
}

#: Table 4, column "Computation power (Eq. 2)".
POWER = {"Node-A": 74_159, "Node-B": 65_384, "Node-C": 148_317, "Node-D": 40_918, "Node-E": 37_080}


def nodes_used(of, scheduler):
    answer = make_scheduler(scheduler).schedule(of)
    assert violations(of, answer.slot_of_executor) == []
    return len(np.unique(of.slot_node[answer.slot_of_executor]))


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_top_storm_problems_match_table_5_and_node_counts_of_paper(topology, configuration):
    of = top_storm(topology, configuration)
    required, available, share = CONFIGURATIONS[configuration]
    assert [t.num_workers for t in of.topologies] == [required]
    assert [len(node.ports) for node in of.supervisors] == [available] * 5
    assert of.num_executors == {"word-count": 28, "exclamation": 18}[topology]
    used = nodes_used(of, "top_storm")
    if share is not None:  # of configuration 6 the text does not tell it
        assert f"{used / 5:.0%}" == share


@pytest.mark.parametrize("configuration", [1, 3])
def test_the_default_scheduler_uses_all_nodes(configuration):
    """As the paper says of word count under these two; its default scheduler is Storm's EvenScheduler."""
    assert nodes_used(top_storm("word-count", configuration), "even") == 5


def test_table_4():
    power = {node.id: computation_power(node, 0.8) for node in top_storm("word-count", 1).supervisors}
    assert power == pytest.approx(POWER, abs=1)


@pytest.mark.parametrize("name", PAPERS)
def test_a_ready_problem_survives_a_file(name):
    of = PAPERS[name]()
    assert of.name == name
    assert problem_to_dict(problem_from_dict(problem_to_dict(of))) == problem_to_dict(of)


def test_ready_topologies_match_storm_examples():
    """WordCountTopology and ExclamationTopology of storm-starter, with the three ackers of their three workers."""
    word_count, exclamation = (top_storm(name, 6).topologies[0] for name in TOPOLOGIES)
    assert {c.id: c.parallelism for c in word_count.components} == {"__acker": 3, "count": 12, "split": 8, "spout": 5}
    assert {c.id: c.parallelism for c in exclamation.components} == {
        "__acker": 3,
        "exclaim1": 3,
        "exclaim2": 2,
        "word": 10,
    }


def test_a_cluster_in_operation_runs_within_its_limits():
    """As large as it says, with room to spare and something to gain."""
    assert list(CLUSTERS) == ["cluster-20", "cluster-200", "cluster-1000", "cluster-5000"]
    of = CLUSTERS["cluster-20"]()
    assert (of.name, len(of.supervisors)) == ("cluster-20", 20)
    assert 20 * 20 <= of.num_executors <= 20 * 20 + 60
    assert violations(of, of.current_slot) == []
    prediction = predict(of, of.current_slot)
    assert all(each.sustained != "no" for each in prediction.topologies)
    assert 0.1 < np.mean([node.cpu.value for node in prediction.nodes]) < 0.6
    assert problem_to_dict(CLUSTERS["cluster-20"]()) == problem_to_dict(of)
    with pytest.raises(InputError, match="did you mean ready:cluster-5000"):
        read_problem(Path("ready:cluster-500"))


def test_a_file_is_still_a_file(tmp_path):
    (tmp_path / "problem.json").write_bytes(b'{"schema": "stormwright-problem/1", "supervisors": [], "topologies": []}')
    assert read_problem(tmp_path / "problem.json").supervisors == ()
