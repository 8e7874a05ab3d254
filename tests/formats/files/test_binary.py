"""Problems as NumPy archives: the same problem again, and every fault by name."""

from __future__ import annotations

import io
import os
import threading
from dataclasses import replace

import numpy as np
import orjson
import pytest
from hypothesis import given

from stormwright import cli
from stormwright.errors import InputError
from stormwright.formats import problem_from_dict, problem_to_dict, read_problem, write_problem
from stormwright.formats.files.archives import ARRAYS, problem_from_archive, problem_to_bytes
from stormwright.model import LoadProfile
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.costs import Costs
from stormwright.testing.strategies import problems
from stormwright.testing.word_counts import WordCount
from tests.case_files import case_files, case_name, case_problem
from tests.formats.documents import SMALL, TOPOLOGY, small


def arrays(**changed):
    """The arrays of the small problem, some of them changed; None leaves one out."""
    with np.load(io.BytesIO(problem_to_bytes(problem_from_dict(SMALL)))) as archive:
        found = {name: archive[name] for name in archive.files}
    return {name: array for name, array in (found | changed).items() if array is not None}


def archive(**changed) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays(**changed))
    return file.getvalue()


def document(**changed):
    """The JSON text in the archive with something changed."""
    raw = orjson.loads(arrays()["document"].tobytes()) | changed
    return np.frombuffer(orjson.dumps(raw), np.uint8)


def faults(data: bytes) -> list[tuple[str, str]]:
    with pytest.raises(InputError) as error:
        problem_from_archive(io.BytesIO(data), "file.npz")
    assert "file.npz" in error.value.source
    return [(fault.path, fault.message) for fault in error.value.faults]


@pytest.mark.slow
@given(problems())
def test_arrays_and_back_is_the_same_problem(problem):
    again = problem_from_archive(io.BytesIO(problem_to_bytes(problem)), "again")
    assert problem_to_dict(again) == problem_to_dict(problem)
    assert problem_to_bytes(again) == problem_to_bytes(problem)


@pytest.mark.parametrize("path", case_files("peer") + case_files("placement"), ids=case_name)
def test_npz_round_trip_preserves_cases(path, tmp_path):
    problem = case_problem(path)
    write_problem(tmp_path / "case.npz", problem)
    assert problem_to_dict(read_problem(tmp_path / "case.npz")) == problem_to_dict(problem)


def test_loads_are_read_only_and_of_the_model_types():
    (load,) = problem_from_archive(io.BytesIO(archive()), "small").loads
    assert (load.pair_source.dtype, load.pair_tps.dtype) == (np.int32, np.float64)
    assert not load.pair_tps.flags.writeable
    assert load.flow_grouping == ("shuffle",)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_named(part):
    data = archive()
    ((path, message),) = faults(data[: int(part * len(data))])
    assert path == "$"
    assert "damaged" in message


def test_damaged_files_are_named():
    data = bytearray(archive())
    place = data.index(np.float64(2e9).tobytes())
    data[place + 5] ^= 0xFF
    ((_, message),) = faults(bytes(data))
    assert "damaged" in message


def test_pickles_are_refused():
    file = io.BytesIO()
    np.savez(file, **arrays(cpu_hz=np.array([{}], object)))
    ((_, message),) = faults(file.getvalue())
    assert "plain NumPy arrays" in message


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"cpu_hz": None}, ("cpu_hz", "array missing")),
        ({"other": np.zeros(1)}, ("other", "unknown array")),
        ({"pair_tps": np.zeros(2, "f4")}, ("pair_tps", "should be a list of float64, is of float32 with shape (2,)")),
        ({"cpu_hz": np.zeros((2, 2))}, ("cpu_hz", "should be a list of float64, is of float64 with shape (2, 2)")),
        ({"cpu_hz": np.zeros(3)}, ("cpu_hz", "has 3 items where executor_count says 4")),
        ({"pair_count": np.array([], np.int64)}, ("pair_count", "has 0 items for 1 topologies")),
        ({"pair_count": np.array([-1])}, ("pair_count", "should be at least 0, got -1")),
        (
            {"pair_source": np.array([3, 4], np.int32)},
            ("pair_source[1]", "should be an executor of its topology, got 4"),
        ),
        (
            {"pair_tps": np.array([np.nan, np.inf])},
            ("pair_tps[0]", "should be a number from 0 to 1e18, got nan (1 more like this)"),
        ),
        (
            {"flow_component": np.array([2], np.int32)},
            ("flow_component[0]", "should be a component of its topology, got 2"),
        ),
        (
            {"flow_grouping": np.array([9], np.uint8)},
            ("flow_grouping[0]", "should be the position of one of local_or_shuffle, none, shuffle, got 9"),
        ),
        (
            {"slot_of_executor": np.array([0, 9, -1, 0], np.int32)},
            (
                f'$.assignments["{TOPOLOGY}"].slot_of_executor[1]',
                "should be -1 or the index of one of 2 slots, got 9",
            ),
        ),
        (
            {"waited": np.array([0, 0, 2.0, np.nan])},
            ("waited[2]", "should be a number from 0 to 1, got 2.0 (1 more like this)"),
        ),
        ({"runs_per_s": np.array([0, 0, np.inf, 0])}, ("runs_per_s[2]", "should be a number from 0 to 1e18, got inf")),
        ({"runs_per_s": np.zeros(3)}, ("runs_per_s", "has 3 items where the load says 4")),
        ({"pending_trees": np.array([-1.0] * 4)}, ("pending_trees[0]", None)),
        ({"document": document(load={"gone": {}})}, ("$.load.gone", "unknown topology")),
        ({"document": document(schema="stormwright-problem-arrays/2")}, ("$.schema", None)),
        ({"document": document(problem=small("supervisors", 0, "id", drop=True) | {"load": {}})}, (None, None)),
    ],
)
def test_faults_are_named(changed, expected):
    path, message = expected
    found = faults(archive(**changed))
    assert any(path in (None, where) and message in (None, what) for where, what in found), found


def test_all_array_faults_are_reported_together():
    wrong = archive(pair_source=np.array([9, 9], np.int32), flow_tps=np.array([-1.0]), cpu_hz=np.full(4, np.nan))
    assert {path for path, _ in faults(wrong)} == {"pair_source[0]", "flow_tps[0]", "cpu_hz[0]"}


def test_foreign_zips_are_no_problems(tmp_path, capsys):
    path = tmp_path / "other.npz"
    np.savez(path, x=np.zeros(3))
    assert cli.run(["schedule", str(path)]) == cli.BAD_INPUT
    assert "document: array missing" in capsys.readouterr().err


@pytest.mark.slow
def test_binary_output_of_convert_is_readable_by_other_commands(tmp_path, capsys):
    path = case_files("placement")[0]
    there, back = tmp_path / "there.npz", tmp_path / "back.json.gz"
    assert cli.run(["convert", str(path), str(there)]) == 0
    assert cli.run(["convert", str(there), str(back)]) == 0
    assert problem_to_dict(read_problem(back)) == problem_to_dict(case_problem(path))
    capsys.readouterr()
    costs = []
    for file in (path, there):
        assert cli.run(["schedule", str(file), "--json"]) == 0
        costs.append(orjson.loads(capsys.readouterr().out)["cost"])
    assert costs[0] == costs[1]


def test_convert_does_not_overwrite_its_input(tmp_path, capsys):
    path = tmp_path / "p.npz"
    write_problem(path, problem_from_dict(SMALL))
    before = path.read_bytes()
    assert cli.run(["convert", str(path), str(path)]) == cli.BAD_INPUT
    assert "would be overwritten" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_every_array_has_a_portable_dtype():
    """Little-endian, whatever the machine."""
    assert all(dtype.str[0] in "<|" for dtype in ARRAYS.values())


def test_archive_from_a_pipe(tmp_path):
    """It cannot seek, and an archive is read from its end."""
    problem = problem_from_dict(SMALL)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(problem_to_bytes(problem),))
    writer.start()
    assert problem_to_dict(read_problem(pipe)) == problem_to_dict(problem)
    writer.join()


def test_archive_of_an_older_version_has_no_waits():
    """It lists none of these arrays, and its document no measurements of nodes."""
    header = orjson.loads(arrays()["document"].tobytes())
    for key in ("node_cpu_hz", "node_quota_hz", "node_overhead_hz"):
        del header["problem"][key]
    header["load"][TOPOLOGY]["arrays"] = ["pair_bytes_per_s", "flow_bytes_per_s", "flow_limit_tps"]
    older = archive(
        document=np.frombuffer(orjson.dumps(header), np.uint8),
        waited=None, executing=None, runs_per_s=None, pending_trees=None, live_heap_mb=None,
        forecast_cpu_hz=np.empty(0),
    )  # fmt: skip
    problem = problem_from_archive(io.BytesIO(older), "older")
    (load,) = problem.loads
    assert (load.waited, load.runs_per_s, load.pending_trees, load.live_heap_mb) == (None, None, None, None)
    assert (problem.load.node_cpu_hz, problem.load.node_quota_hz) == ({}, {})
    assert problem.load.end_ms == 0


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["json", "json.gz", "npz"])
def test_prediction_of_a_file_is_that_of_the_service(tmp_path, suffix):
    """How much of the CPU of trees the model may leave unexplained depends on the CPU of whole nodes."""
    problem = WordCount(cores=0.4, link_bps=1e9, rate_tps=4_000.0).problem()
    full = {node.id: 0.3 * node.cpu_hz for node in problem.supervisors}
    topologies = {
        name: replace(
            load,
            waited=np.full(12, 0.01),
            runs_per_s=np.arange(12.0),
            pending_trees=np.array([0.0] * 10 + [200.0, 200.0]),
        )
        for name, load in problem.load.topologies.items()
    }
    quota = {node: 4 * hz for node, hz in full.items()}
    overhead = {node: 0.1 * hz for node, hz in full.items()}
    measured = problem.with_load(
        LoadProfile(topologies, node_cpu_hz=full, node_quota_hz=quota, node_overhead_hz=overhead)
    )
    path = tmp_path / f"problem.{suffix}"
    write_problem(path, measured)
    again = read_problem(path)
    assert again.load == measured.load
    assert predicted(again) == predicted(measured)
    blind = measured.with_load(replace(measured.load, node_cpu_hz={}))
    assert predicted(blind) != predicted(measured), "the test would not notice a file without the CPU of nodes"


def predicted(problem):
    spread = np.arange(problem.num_executors) % len(problem.slots)
    return predict(problem, spread.astype(np.int32), Assumptions(Costs())).as_dict()
